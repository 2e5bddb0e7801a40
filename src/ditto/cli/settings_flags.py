"""Flags of a command from the fields of its settings: one list serves YAML and flags.

A flag has the field's own name, as Hugging Face writes them (``--learning_rate``);
``--learning-rate`` is the same. Its value goes to the settings as it was typed, so a
wrong one is refused in the same words as in a file.
"""

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from ditto.cli.help import with_named_values

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from ditto.training.settings import TrainingSettings

BY_ITSELF = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""For typer: a command that reads all its arguments by itself, when it is called. So no
other command waits until its settings are imported."""
_BOTH_WAYS = {"token_normalize_func": lambda name: name.replace("-", "_")}
_WIDEST = 16
"""Letters of what a value is called: more leave no room for the flags."""
_NAMES = {int: "N", float: "X", str: "TEXT", Path: "PATH", bool: "true"}


def run_with_flags(
    settings: "type[TrainingSettings]",
    command: Callable[..., None],
    context: typer.Context,
) -> None:
    """Run a command with a flag for each field, on the arguments of a context."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.command(context_settings=_BOTH_WAYS)(with_flags(settings, command))
    app(context.args, prog_name=context.command_path)


def with_flags(
    settings: "type[TrainingSettings]", command: Callable[..., None]
) -> Callable[..., None]:
    """A command that takes a flag for each field, and passes those that were given on
    as one argument ``flags``, before the command's own."""
    own = inspect.signature(with_named_values(command)).parameters
    flags = {
        name: _parameter(name, field) for name, field in settings.model_fields.items()
    }

    def called(**values: Any) -> None:
        typed = {name: values.pop(name) for name in flags}
        typed = {name: value for name, value in typed.items() if value is not None}
        command(flags=typed, **values)

    kept = [parameter for name, parameter in own.items() if name != "flags"]
    kept = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in kept]
    parameters = [*flags.values(), *kept]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__doc__, called.__name__ = command.__doc__, command.__name__
    return called


def _parameter(name: str, field: "FieldInfo") -> inspect.Parameter:
    extra = field.json_schema_extra
    group = extra["group"] if isinstance(extra, dict) else None
    option = typer.Option(
        f"--{name}",
        help=f"{field.description}{_default(field)}",
        rich_help_panel=str(group),
        metavar=_value_name(field.annotation),
        show_default=False,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )


def _default(field: "FieldInfo") -> str:
    default = field.default
    if field.is_required():
        return " Must be given."
    if default is None or default is False:
        return ""
    if isinstance(default, tuple):
        default = ",".join(str(each) for each in default)
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f" ({shown})"


def _value_name(annotation: object) -> str:
    """What a value is called in --help."""
    if isinstance(annotation, type) and annotation in _NAMES:
        return _NAMES[annotation]
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Literal:
        joined = "|".join(str(part) for part in parts)
        return joined if len(joined) <= _WIDEST else "NAME"
    if get_origin(annotation) is tuple:
        return "N,N,..."
    if get_origin(annotation) in (Union, types.UnionType):
        return "|".join(_value_name(part) for part in parts)
    return _value_name(parts[0])
