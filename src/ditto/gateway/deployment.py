"""The parties of a deployment, as whoever answers."""

from pathlib import Path

from ditto.client.answering import Answering
from ditto.errors import SetupError


def open_deployment(agreement: Path, identity: Path) -> Answering:
    """The three organisations of an agreement, asked with a client's identity."""
    del identity
    raise SetupError(
        f"{agreement}: the parties of a deployment are not served yet. Say `ditto "
        "gateway --local MODEL_DIR` to have three of this machine answer."
    )
