"""``ditto party``: one organisation's party of a deployment."""

import hashlib
import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from ditto.cli.help import with_named_values

party = typer.Typer(
    help="Run one of the three parties of a deployment.", no_args_is_help=True
)


@party.callback()
def _party() -> None:
    """Run one of the three parties of a deployment."""


@party.command()
@with_named_values
def serve(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            help="party.toml: rank, trio, credentials, store, addresses.",
        ),
    ],
    trio: Annotated[
        int | None,
        typer.Option(
            help="The number of the trio, if party.toml does not say it: a pod's own.",
            min=0,
        ),
    ] = None,
    shutdown_timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds in which runs are finished after SIGTERM; by default what "
            "the agreement says.",
            min=0,
        ),
    ] = None,
) -> None:
    """Serve models of a deployment until SIGTERM.

    The party loads the models in its store, waits for its two peers, compares with
    them what must be the same, and then takes requests over gRPC with TLS on both
    sides. If a peer is lost, it waits for it again by itself.

    The log is one JSON object per line on standard error. With `listen_http` there are
    /health, /ready and /metrics for operators. SIGTERM or Ctrl-C: no more requests are
    taken and those that are here are finished; a second one ends the party at once.
    """
    from ditto.files import cache_folder
    from ditto.launch import keeping

    name = hashlib.sha256(str(config.resolve()).encode()).hexdigest()[:16]
    os.environ.update(keeping(cache_folder(), f"serve-{name}"))  # before JAX
    from ditto.party.server.config import read_config
    from ditto.party.server.host import PartyHost
    from ditto.party.server.logs import log_to

    settings = read_config(config)
    if trio is not None:
        settings = settings.model_copy(update={"trio": trio})
    log_to(level=settings.log_level)
    host = PartyHost(settings)
    told = threading.Event()

    def heed(number: int, _: FrameType | None) -> None:
        if told.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        told.set()

    signal.signal(signal.SIGINT, heed)
    signal.signal(signal.SIGTERM, heed)
    host.start()
    while not told.wait(3600.0):
        pass
    seconds = host.agreement.drain_seconds
    host.drain(seconds if shutdown_timeout is None else shutdown_timeout)
    host.stop()
