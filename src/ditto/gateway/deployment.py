"""The parties of a deployment, as whoever answers."""

from pathlib import Path

from ditto.client.answering import Answering
from ditto.client.remote_client import Client


def open_deployment(agreement: Path, identity: Path) -> Answering:
    """The three organisations of an agreement, asked with a client's identity."""
    return Client(agreement, identity)
