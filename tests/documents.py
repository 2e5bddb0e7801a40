"""Whether a document that ``--json`` wrote is what the reference says of it."""

import re
from collections.abc import Iterator
from typing import Any

from website.documents import Field, documents

Node = dict[str, Any]
_IS: dict[str, Any] = {
    "text": lambda v: isinstance(v, str),
    "true or false": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "texts": lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
    "integers": lambda v: isinstance(v, list) and all(isinstance(x, int) for x in v),
    "numbers": lambda v: isinstance(v, list) and all(map(_of_numbers, v)),
    "object": lambda v: isinstance(v, dict),
    "list": lambda v: isinstance(v, list),
}
_IS |= dict.fromkeys(("bytes", "seconds", "milliseconds"), _IS["number"])
_FIELD = ""
"""The key under which a node has its own field."""


def check_document(command: str, document: object) -> None:
    """Raise AssertionError where a document and the reference differ."""
    tree: Node = {}
    for field in documents()[command]:
        node = tree
        for key in field.keys:
            node = node.setdefault(key, {})
        node[_FIELD] = field
    wrong = [*_differences(tree, document, command)]
    assert not wrong, "\n".join(wrong)


def _differences(node: Node, value: object, place: str) -> Iterator[str]:
    field: Field | None = node.get(_FIELD)
    if field is not None and not _fits(field.type, value):
        yield f"{place} is {value!r:.60}, not {field.type}"
    within = {key: each for key, each in node.items() if key != _FIELD}
    if isinstance(value, list) and "[]" in within:
        for k, each in enumerate(value):
            yield from _differences(within["[]"], each, f"{place}[{k}]")
    elif isinstance(value, dict) and within:
        yield from _of_object(within, value, place)
    elif isinstance(value, dict) and "see [settings]" not in (field or _NONE).meaning:
        yield f"{place} has fields that nothing describes"


def _of_object(within: Node, value: dict[str, object], place: str) -> Iterator[str]:
    for key, each in value.items():
        inner = within.get(key) or next(
            (node for name, node in within.items() if _is_like(name, key)), None
        )
        if inner is None:
            yield f"{place}.{key} is not described"
        else:
            yield from _differences(inner, each, f"{place}.{key}")
    for key, inner in within.items():
        field: Field | None = inner.get(_FIELD)
        if "{" not in key and key not in value and not (field and field.is_optional):
            yield f"{place}.{key} is described, and missing"


def _fits(kind: str, value: object) -> bool:
    if value is None:
        return kind.endswith(" or null")
    return bool(_IS[kind.removesuffix(" or null")](value))


def _of_numbers(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_of_numbers, value))
    return bool(_IS["number"](value))


def _is_like(name: str, key: str) -> bool:
    """Whether a key is what stands for ``{...}`` in a name."""
    parts = re.split(r"\{\w+\}", name)
    return len(parts) > 1 and bool(re.fullmatch(".+".join(map(re.escape, parts)), key))


_NONE = Field("", "", "", False)
