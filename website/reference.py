"""Pages that are made from the code: commands, settings, errors, the library."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import ditto
from ditto import errors
from ditto.cli import app
from ditto.cli.exit_codes import ExitCode, exit_code_of
from ditto.client.answering import Answering
from ditto.client.remote_client import Client
from ditto.compiler import Profile
from ditto.party.server.config import PartyConfig
from ditto.training.settings import DistillSettings, FinetuneSettings
from ditto.wire.agreement import Agreement, Limits, MemberDomain, PartyTerms, Versions
from website.documents import documents

_HELP = (
    "`ditto COMMAND --help` says the same; the flags of `finetune` and `distill` are "
    "under [settings](settings.md)."
)
_KEYS = (
    "Every key of the files that you write. In an agreement `ca_file`, a file in the "
    "same folder, may stand in place of `ca`."
)
_JSON = (
    "The document of every command that has `--json`, field by field. `[]` stands for "
    "each entry of a list, `{name}` for a key that is data, `?` for a field that is "
    "there only where it applies. Bytes and seconds are numbers. With `--json -` the "
    "document alone is on standard output; the exit code is the same as without. New "
    "fields may come with any release, so ignore those that you do not know."
)
SETTINGS: dict[str, tuple[str, type[BaseModel]]] = {
    "Agreement": ("`deployment.toml`: what three organisations agree on.", Agreement),
    "Parties of an agreement": ("`[[parties]]`, three of them.", PartyTerms),
    "Domains of an agreement": ("`[[domains]]`: who runs no party.", MemberDomain),
    "Limits of an agreement": ("`[limits]`", Limits),
    "Versions of an agreement": ("`[versions]`", Versions),
    "A party": ("`party.toml`: one party's own settings.", PartyConfig),
    "ditto finetune": ("YAML keys, and flags.", FinetuneSettings),
    "ditto distill": ("YAML keys, and flags.", DistillSettings),
    "Profile": ("How a function is computed: `ditto.Profile`.", Profile),
}

_OF_PROFILE = {
    "name": "What `--profile` calls it; plans and results bear it.",
    "version": "The form of these settings.",
    "casts": "Between SPU's rings, for `rings-in-spu`: our recasts, or the paper's.",
    "overrides": "Other values of `exp`, `gelu`, `fit_error`, `margin` or `rounds` for "
    "the scopes that a pattern matches, such as `encoder.layer.*.attention`.",
}
"""Meanings of the keys that the source says nothing under."""


def pages() -> dict[str, str]:
    """By their path on the site."""
    return {
        "reference/commands.md": _commands(),
        "reference/settings.md": _settings(),
        "reference/errors.md": _errors(),
        "reference/json.md": _json(),
        "reference/python.md": _python(),
    }


def _commands() -> str:
    command = typer.main.get_command(app)
    lines = ["# Commands", "", _HELP]
    for path, each in walk(command, ("ditto",)):
        lines += ["", f"## {' '.join(path)}", "", inspect.cleandoc(each.help or "")]
        lines += ["", *_parameters(each)]
    return _page(lines)


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by name."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in sorted(command.commands.items()):
        if not inner.hidden:
            yield from walk(inner, (*path, name))


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "option":
            names = ", ".join(f"`{name}`" for name in parameter.opts)
            text = parameter.help or ""
        else:
            names = f"`{(parameter.metavar or parameter.name or '').upper()}`"
            text = getattr(parameter, "help", None) or ""
        default = parameter.default
        if parameter.required:
            shown = "required"
        elif default is None or default is False or default == () or callable(default):
            shown = ""
        else:
            shown = str(default)
        rows.append([names, shown, text])
    return _table(["option", "default", "meaning"], rows) if rows else []


def _settings() -> str:
    lines = ["# Settings", "", _KEYS]
    for title, (where, model) in SETTINGS.items():
        meanings = _attribute_texts(model)
        rows = [
            [
                f"`{name}`",
                _type(field),
                _default(field),
                field.description or meanings.get(name) or _OF_PROFILE[name],
            ]
            for name, field in model.model_fields.items()
        ]
        lines += ["", f"## {title}", "", where, ""]
        lines += _table(["key", "type", "default", "meaning"], rows)
    return _page(lines)


def _type(field: FieldInfo) -> str:
    kind = field.annotation
    name = getattr(kind, "__name__", None)
    shown = name if name and not getattr(kind, "__args__", None) else str(kind)
    for prefix in ("typing.", "pathlib._local.", "pathlib.", "<class '", "'>"):
        shown = shown.replace(prefix, "")
    shown = re.sub(r"Annotated\[(\w+), FieldInfo\(.*?\]\)\]", r"\1", shown)
    return f"`{re.sub(r'(?:[a-z_]+[.])+(?=[A-Z])', '', shown)}`"


def _default(field: FieldInfo) -> str:
    if field.is_required() or field.default is PydanticUndefined:
        return "required"
    value = field.default
    if isinstance(value, BaseModel):
        return "see below"
    return "" if value is None else f"`{value}`"


def _attribute_texts(model: type[BaseModel]) -> dict[str, str]:
    """What stands under each attribute in the source, those of bases included."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for line, after in pairwise(body):
            if not (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                continue
            text = " ".join(str(after.value.value).split())
            found[line.target.id] = text.replace("``", "`")
    return found


def _json() -> str:
    lines = ["# What --json writes", "", _JSON]
    for command, fields in documents().items():
        rows = [
            [f"`{field.path}`", field.type, field.meaning]
            for field in (
                replace(each, path=f"{each.path}?") if each.is_optional else each
                for each in fields
            )
        ]
        lines += ["", f"## ditto {command}", ""]
        lines += _table(["field", "type", "meaning"], rows)
    return _page(lines)


def _errors() -> str:
    codes = [
        [f"{code.value}", code.name.lower(), _text_under(ExitCode, code.name)]
        for code in ExitCode
    ]
    kinds = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.DittoError)
    ]
    rows = [
        [f"`{k.__name__}`", f"`{k.code}`", f"{_exit_of(k)}", _first_line(k), k.public]
        for k in kinds
    ]
    lines = ["# Exit codes and errors", "", "## Exit codes", ""]
    lines += _table(["code", "name", "meaning"], codes)
    lines += ["", "## Errors", ""]
    lines += [
        "All are `ditto.errors.DittoError`. What a peer or a client is told is a "
        "constant of the class: it carries no value, no share and no path.",
        "",
    ]
    headings = ["error", "code", "exit", "when", "what others are told"]
    return _page([*lines, *_table(headings, rows)])


def _exit_of(kind: type[errors.DittoError]) -> int:
    return int(exit_code_of(kind.__new__(kind)))


def _text_under(kind: type, name: str) -> str:
    source = inspect.getsource(kind)
    after = source.split(f"{name} = ")[1].split('"""')[1]
    return " ".join(after.split())


def _python() -> str:
    lines = ["# Python", "", _paragraphs(ditto)]
    for name in sorted(ditto.__all__, key=str.lower):
        value = getattr(ditto, name)
        if name.startswith("__"):
            continue
        lines += ["", f"## ditto.{name}", ""]
        if callable(value):
            lines += ["```python", f"{name}{_signature(value)}", "```", ""]
            lines += [_paragraphs(value)]
        else:
            shown = ", ".join(value) if isinstance(value, dict) else str(value)
            lines += [f"A `{type(value).__name__}`: `{shown}`."]
        if inspect.isclass(value):
            lines += ["", *_methods(value)]
    return _page(lines)


def _methods(kind: type) -> list[str]:
    rows = [
        [f"`{name}`", _first_line(_where_it_stands(name, member))]
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and _is_ours(member) and inspect.getdoc(member)
    ]
    return _table(["method", "meaning"], rows) if rows else []


def _where_it_stands(name: str, member: Any) -> Any:
    """The member whose text another means by `See Answering.`"""
    pointer = re.fullmatch(r"See (\w+)\.", inspect.getdoc(member) or "")
    if pointer is None:
        return member
    kinds = {Answering.__name__: Answering, Client.__name__: Client}
    return _where_it_stands(name, getattr(kinds[pointer[1]], name))


def _is_ours(member: Any) -> bool:
    """A method or property that no base from elsewhere has brought."""
    function = member.fget if isinstance(member, property) else member
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return False
    return function.__module__.startswith("ditto")


def _signature(value: object) -> str:
    try:
        shown = str(inspect.signature(value))  # type: ignore[arg-type]
        return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", shown)
    except (TypeError, ValueError):
        return "(...)"


def _paragraphs(value: object) -> str:
    return (inspect.getdoc(value) or "").replace("``", "`")


def _first_line(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`")


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        joined = (" ".join(cell.split()) for cell in cells)
        # inside code the sign is no end of a cell
        clean = (c if c.startswith("`") else c.replace("|", "\\|") for c in joined)
        return f"| {' | '.join(clean)} |"

    headings = [*headings]
    return [line(headings), line("---" for _ in headings), *(line(row) for row in rows)]


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
