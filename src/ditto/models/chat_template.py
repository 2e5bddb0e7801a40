"""Chat templates of Hugging Face, rendered without trusting them.

A template is a program that comes with a model. It runs in Jinja's immutable sandbox,
with the names that transformers gives it and no others, and with a budget: loops and
calls are counted, and no text in it grows beyond a limit. So the worst it can do is to
fail. It sees a conversation in plain text, as it must, and can keep nothing of it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from itertools import takewhile
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from ditto.errors import ChatTemplateError, SetupError
from ditto.models.chat_files import ChatFiles

MAX_TEXT = 1 << 21
"""Characters of a conversation, or of any text on the way to it."""
MAX_STEPS = 200_000
"""Turns of loops and calls, all together."""
_MAX_REASON = 300
_FILTERS = frozenset(
    (
        "abs",
        "capitalize",
        "count",
        "d",
        "default",
        "dictsort",
        "e",
        "escape",
        "first",
        "float",
        "int",
        "items",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "safe",
        "select",
        "selectattr",
        "sort",
        "sum",
        "title",
        "trim",
        "unique",
        "upper",
    )
)
"""Those that make nothing large of something small; ``join``, ``replace``, ``string``
and ``tojson`` are ours."""
_METHODS = frozenset(
    (
        "capitalize",
        "count",
        "endswith",
        "find",
        "get",
        "index",
        "isalpha",
        "isdigit",
        "isspace",
        "items",
        "join",
        "keys",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "upper",
        "values",
    )
)
"""Of texts, lists and tables."""

Messages = Sequence[Mapping[str, str]]


class _RefusedError(TemplateError):
    """What a template says of a conversation that it does not take."""


class _Budget:
    """What is left to one rendering."""

    def __init__(self) -> None:
        self.steps = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TemplateError(f"The template takes more than {MAX_STEPS} steps.")


_BUDGET: ContextVar[_Budget] = ContextVar("budget of a rendering")


class _Bounding(NodeTransformer):
    """Has loops counted and joined texts measured."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filter(node.iter, "_counted")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes), "_joined")


def _filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


class _Generation(Extension):
    """``{% generation %}`` marks what is trained on; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  (as Jinja has it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """See Extension."""
        next(parser.stream)
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return list(body)


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with our limits."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        parsed: nodes.Template = super()._parse(source, name, filename)
        _Bounding().visit(parsed)
        parsed.set_environment(self)
        return parsed

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic is on numbers; texts and lists are only put together."""
        sized = [x for x in (left, right) if isinstance(x, str | list | tuple)]
        large = any(isinstance(x, int) and abs(x) >> 64 for x in (left, right))
        if operator == "**" or large or (sized and operator != "+"):
            raise TemplateError(f"The template uses {operator!r}, which is not taken.")
        _check_size(sum(map(len, sized)))
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> None:
        """A text's ``format`` is a method like others: none that is known here."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Known methods, and what is no method."""
        if callable(value) and isinstance(obj, str | list | tuple | dict):
            return attr in _METHODS and super().is_safe_attribute(obj, attr, value)
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """A macro or a method; both are counted, and what grows is measured."""
        _BUDGET.get().spend(1)
        text = getattr(obj, "__self__", None)
        if isinstance(text, str) and len(args) >= 1:
            if obj.__name__ == "replace":
                return _replaced(text, *args)
            if obj.__name__ == "join":
                return _joined(args[0], text)
        return super().call(context, obj, *args, **kwargs)


class ChatTemplate:
    """A template that was read and can be rendered, by several threads."""

    def __init__(self, source: str, now: Callable[[], datetime] = datetime.now) -> None:
        environment = _Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _Generation],
            finalize=_weighed,
        )
        environment.filters = {
            name: function
            for name, function in environment.filters.items()
            if name in _FILTERS
        } | {
            "_counted": _counted,
            "_joined": _joined,
            "join": lambda parts, between="": _joined(parts, between),
            "replace": _replaced,
            "string": lambda value: str(_weighed(value)),
            "tojson": _tojson,
        }
        known: dict[str, object] = {
            "namespace": environment.globals["namespace"],
            "range": _range,
            "raise_exception": _refuse,
            "strftime_now": lambda form: now().strftime(str(form)[:100]),
        }
        environment.globals = known
        try:
            self._template = environment.from_string(source)
        except (TemplateError, RecursionError, SyntaxError) as error:
            raise ChatTemplateError(
                f"The chat template cannot be read: {type(error).__name__}."
            ) from None

    def render(
        self, messages: Messages, special_tokens: Mapping[str, str] | None = None
    ) -> str:
        """The prompt of a conversation whose next turn is the model's."""
        budget = _BUDGET.set(_Budget())
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(
                messages=[dict(message) for message in messages],
                add_generation_prompt=True,
                tools=None,
                documents=None,
                **dict(special_tokens or {}),
            ):
                size += len(piece)
                _check_size(size)
                pieces.append(piece)
        except _RefusedError as refusal:
            raise ChatTemplateError(
                "The chat template refuses the conversation.",
                reason=str(refusal)[:_MAX_REASON],
            ) from None
        except Exception as error:  # templates fail as programs do
            raise ChatTemplateError(
                f"The chat template failed: {type(error).__name__}."
            ) from None
        finally:
            _BUDGET.reset(budget)
        return "".join(pieces)


def conversation(said: str, system: str = "") -> Messages:
    """What a user says, after what the system says, if it says anything."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": said}]


def system_prefix(chat: ChatFiles, system: str) -> str:
    """What every conversation begins with in which the system says this, or nothing:
    many templates then have a message of their own."""
    if chat.template is None:
        raise SetupError("The model has no chat template: there is no system message.")
    template = ChatTemplate(chat.template)
    one, other = (
        template.render(conversation(said, system), chat.special_tokens)
        for said in ("a", "b")
    )
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in pairs)


def _check_size(size: int) -> None:
    if size > MAX_TEXT:
        raise TemplateError(f"A text of the template has more than {MAX_TEXT} letters.")


def _counted(items: Iterable[Any]) -> list[Any]:
    """What a loop goes through, paid for."""
    budget = _BUDGET.get()
    counted = []
    for item in items:
        budget.spend(1)
        counted.append(item)
    return counted


def _joined(parts: Iterable[Any], between: str = "") -> str:
    texts = [str(_weighed(part)) for part in _counted(parts)]
    _check_size(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _replaced(text: Any, old: str, new: str, count: int | None = None) -> str:
    whole, old, new = str(_weighed(text)), str(old), str(new)
    found = whole.count(old) if count is None else min(whole.count(old), count)
    _check_size(len(whole) + max(0, len(new) - len(old)) * found)
    return whole.replace(old, new, -1 if count is None else count)


def _weighed(value: Any) -> Any:
    """Anything, before it is written: every part of it is paid for and measured."""
    _weigh(value)
    return value


def _weigh(value: Any) -> int:
    _BUDGET.get().spend(1)
    size = 0
    if isinstance(value, str):
        size = len(value)
    elif isinstance(value, Mapping):
        size = sum(_weigh(key) + _weigh(part) for key, part in value.items())
    elif isinstance(value, list | tuple | set):
        size = sum(map(_weigh, value))
    _check_size(size)
    return size


def _range(*limits: int) -> range:
    _BUDGET.get().spend(len(range(*limits)))
    return range(*limits)


def _tojson(value: Any, indent: int | None = None) -> str:
    """As transformers has it: readable letters, and nothing escaped for HTML."""
    width = None if indent is None else min(int(indent), 8)
    text = json.dumps(_weighed(value), ensure_ascii=False, indent=width)
    _check_size(len(text))
    return text


def _refuse(message: object) -> None:
    raise _RefusedError(str(message))
