"""The parties of a deployment, as whoever answers."""

from pathlib import Path

from ditto.client.answering import Answering
from ditto.client.remote_client import Client
from ditto.plan import Audit


def open_deployment(agreement: Path, identity: Path, audit: Audit = "off") -> Answering:
    """The three organisations of an agreement, asked with a client's identity."""
    return Client(agreement, identity, audit=audit)
