"""Parties that are started before a command has imported what it needs itself."""

from pathlib import Path
from typing import Literal

from ditto.extras import require
from ditto.files import warm_socket
from ditto.launch import Launched


def early_parties(
    model_dir: Path, cache: Path | Literal[False], *, no_serve: bool
) -> Launched | None:
    """Processes of three parties, if a model will be run by parties of its own."""
    if not (model_dir / "config.json").is_file():
        return None  # a bundle, or a mistake
    if warm_socket().exists() and not no_serve:
        return None
    require("jax", "spu")  # else three processes would say so, and at length
    return Launched(compiled=cache or None)
