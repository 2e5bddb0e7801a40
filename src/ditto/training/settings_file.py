"""Settings from a YAML file and from flags; flags win."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from ditto.errors import SetupError
from ditto.files import JsonValue, read_limited
from ditto.training.settings import TrainingSettings

MAX_FILE = 64 << 10
_MOST_ITEMS = 64
_LONGEST = 120

Settings = TypeVar("Settings", bound=TrainingSettings)


def read_settings(
    kind: type[Settings], file: Path | None, flags: Mapping[str, JsonValue]
) -> Settings:
    """The settings of a file, if there is one, with those of the flags over them.

    Raises SetupError for what is unknown, naming the nearest that is known.
    """
    values = {} if file is None else read_yaml(file)
    where = "the command line" if file is None else str(file)
    for name in values:
        if name not in kind.model_fields:
            raise SetupError(f"{where}: {_unknown(name, kind)}")
    for name in flags:
        if name not in kind.model_fields:
            raise SetupError(f"The command line: {_unknown(name, kind)}")
    try:
        return kind.model_validate({**values, **flags})
    except ValidationError as error:
        raise SetupError(_in_words(error, values, flags, where)) from None


def read_yaml(file: Path) -> dict[str, JsonValue]:
    """The keys of a YAML file, with a plain value or a list of such for each."""
    content = read_limited(file, MAX_FILE, SetupError, f"{MAX_FILE >> 10} KiB")
    try:
        document = yaml.load(content, _Loader)  # noqa: S506, a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or type(error).__name__
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", line {mark.line + 1}"
        raise SetupError(f"{file}{place}: this is not YAML: {problem}.") from None
    if not isinstance(document, dict):
        raise SetupError(f"{file} must hold keys with values, such as seed: 1.")
    for name, value in document.items():
        if not isinstance(name, str):
            raise SetupError(f"{file}: the key {str(name)[:_LONGEST]} is not a text.")
        if not _is_plain(value):
            raise SetupError(
                f"{file}: {name[:_LONGEST]} must be a text, a number, true, false or "
                f"a list of at most {_MOST_ITEMS} of these."
            )
    return document


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Builds plain values alone, and refuses a key that stands twice."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[JsonValue, JsonValue]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value} stands twice", key.start_mark
                )
            if isinstance(key.value, str):
                seen.add(key.value)
        mapping: dict[JsonValue, JsonValue] = super().construct_mapping(node, deep)
        return mapping


def _is_plain(value: JsonValue) -> bool:
    scalar = str | int | float | None  # a bool is an int
    if isinstance(value, list):
        return len(value) <= _MOST_ITEMS and all(isinstance(v, scalar) for v in value)
    return isinstance(value, scalar)


def _unknown(name: str, kind: type[TrainingSettings]) -> str:
    near = get_close_matches(name, kind.model_fields, 1)
    hint = f" Did you mean {near[0]}?" if near else " --help lists all."
    return f"there is no setting {name[:_LONGEST]!r}.{hint}"


def _in_words(
    error: ValidationError,
    values: Mapping[str, JsonValue],
    flags: Mapping[str, JsonValue],
    where: str,
) -> str:
    """The first thing that is wrong, where it was said, and how many more are."""
    details = error.errors(include_url=False, include_context=False)
    first = details[0]
    text = first["msg"].removeprefix("Value error, ")
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    name = str(first["loc"][0]) if first["loc"] else ""
    if not name:
        return f"{text}{more}."
    if first["type"] == "missing":
        return f"{name} is missing: --{name}, or a key of the YAML file{more}."
    source = f"--{name}" if name in flags else f"{where}, {name}"
    got = str(flags.get(name, values.get(name)))[:_LONGEST]
    return f"{source}: {text}, got {got!r}{more}."
