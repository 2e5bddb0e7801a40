"""What --help calls the values of options: TEXT and N, and nothing for a switch."""

from collections.abc import Callable
from inspect import get_annotations
from pathlib import Path
from typing import TypeVar, get_args

from typer.models import OptionInfo

_NAMES = {bool: "", int: "N", float: "X", str: "TEXT", Path: "PATH"}

Function = TypeVar("Function", bound=Callable[..., None])


def with_named_values(command: Function) -> Function:
    """The same command; options that have no name for their value get one."""
    for annotation in get_annotations(command).values():
        kind, *notes = get_args(annotation) or (None,)
        for note in notes:
            if isinstance(note, OptionInfo) and note.metavar is None:
                note.metavar = _name(kind)
    return command


def _name(kind: object) -> str | None:
    """By the type, or by that of which there is a list or which may be missing."""
    if isinstance(kind, type) and kind in _NAMES:
        return _NAMES[kind]
    return next((name for part in get_args(kind) if (name := _name(part))), None)
