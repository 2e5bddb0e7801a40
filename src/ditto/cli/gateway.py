"""``ditto gateway``: OpenAI's API on this machine, answered by three parties."""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ditto.cli.progress import stages
from ditto.cli.remote import AsMember, needed
from ditto.cli.report import Quiet, Verbose, console
from ditto.cli.show import (
    Audited,
    CalibrationFile,
    Gelu,
    Head,
    Margin,
    NoCache,
    PreparedLengths,
    ProfileName,
    calibration_texts,
    chosen_cache,
    chosen_profile,
)
from ditto.errors import SetupError
from ditto.extras import require
from ditto.files import read_limited

if TYPE_CHECKING:
    from ditto.client.answering import Answering

_SHORTEST_KEY = 16
_LONGEST_FILE = 1 << 16


def gateway(
    model_dirs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL_DIR...",
            help="With --local: Hugging Face folders. Without a NAME a model has its "
            "folder's.",
        ),
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Three parties of this machine answer."),
    ] = False,
    deployment: Annotated[
        Path | None,
        typer.Option(help="The parties of this deployment.toml answer."),
    ] = None,
    identity: AsMember = None,
    audit: Audited = "off",
    host: Annotated[
        str, typer.Option(help="The address to listen at: this machine's own.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A further name under which programs may call it; may be repeated."
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(help="Keys, one per line, of which a request must have one."),
    ] = None,
    max_running: Annotated[
        int,
        typer.Option(
            help="Requests at the parties at a time; those of one model may be run "
            "together.",
            min=1,
            max=64,
        ),
    ] = 16,
    max_waiting: Annotated[
        int, typer.Option(help="Requests that may wait; more get 429.", min=0, max=4096)
    ] = 32,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a request may take.", min=1)
    ] = 600.0,
    shutdown_timeout: Annotated[
        float, typer.Option(help="Seconds that requests have to end.", min=1)
    ] = 10.0,
    length: PreparedLengths = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Answer OpenAI's HTTP API in private.

    Programs that take a `base_url` become private by changing it to
    http://127.0.0.1:8080/v1. Plain text ends in this process: it makes tokens and
    shares of it, and the parties compute on those.
    """
    if local == (deployment is not None):
        raise SetupError(
            "Say who answers: --local MODEL_DIR, or --deployment AGREEMENT --as FOLDER."
        )
    if local and audit != "off":
        raise SetupError(
            "--audit is for a --deployment: on one machine there is one operator."
        )
    keys = _read_keys(api_key_file)
    try:
        from ditto.gateway.context import Settings
        from ditto.gateway.guard import is_loopback
        from ditto.gateway.server import bind, serve_gateway
    except ModuleNotFoundError as missing:
        raise SetupError(
            f"The gateway needs {missing.name}: pip install 'ditto-mpc[gateway]'."
        ) from None

    listener = bind(host, port)
    bound = listener.getsockname()[1]
    names = {*Settings().allowed_hosts, *(allowed_host or [])}
    settings = Settings(
        max_running=max_running,
        max_waiting=max_waiting,
        timeout=timeout,
        allowed_hosts=(*names, host) if host not in ("0.0.0.0", "::") else (*names,),  # noqa: S104
        api_keys=keys,
    )
    with listener:
        answering: Answering
        if deployment is not None:
            answering = _of_deployment(deployment, identity, model_dirs, audit)
        else:
            folders = _folders(model_dirs or [])
            cache = chosen_cache(no_cache)
            require("jax", "spu")
            from ditto.launch import Launched

            launched = Launched(compiled=cache or None)  # they import meanwhile
            from ditto.api.answering import open_local

            with stages(quiet=quiet, verbose=verbose) as shown:
                answering = open_local(
                    folders,
                    profile=chosen_profile(profile, gelu, margin),
                    head=head,
                    calibration=calibration_texts(calibration),
                    prepare=length or [16],
                    cache=cache,
                    trio=launched,
                    on_stage=shown.stage,
                )
        try:
            if not is_loopback(host):
                _warn_of_strangers(host, with_keys=bool(keys))
            if not quiet:
                _log_to_stderr()
            models = ", ".join(card.name for card in answering.models())
            shown_host = f"[{host}]" if ":" in host else host
            address = f"http://{shown_host}:{bound}/v1"
            out = console()
            serve_gateway(
                answering,
                settings,
                listener,
                shutdown_timeout=shutdown_timeout,
                on_ready=lambda: out.print(
                    f"ready: {models}, at {address}; Ctrl-C ends it",
                    markup=False,
                    soft_wrap=True,
                ),
            )
        finally:
            answering.close()


def _of_deployment(
    agreement: Path, identity: Path | None, model_dirs: list[str] | None, audit: str
) -> "Answering":
    from ditto.gateway.deployment import open_deployment
    from ditto.plan import check_audit

    folder = needed(identity)
    if model_dirs:
        raise SetupError("A deployment has its own models: name no folder.")
    return open_deployment(agreement, folder, check_audit(audit))


def _folders(model_dirs: list[str]) -> dict[str, Path]:
    """Models by their names."""
    folders: dict[str, Path] = {}
    for given in model_dirs:
        name, equals, path = given.partition("=")
        folder = Path(path if equals else given)
        name = name if equals else folder.resolve().name
        if not name or len(name) > 200 or not name.isprintable():
            raise SetupError(f"{given!r} gives the model no name that can be used.")
        if name in folders:
            raise SetupError(
                f"Two models are called {name!r}. Name them: NAME=MODEL_DIR."
            )
        folders[name] = folder
    return folders


def _read_keys(path: Path | None) -> tuple[bytes, ...]:
    """The keys of a file that is this user's alone."""
    if path is None:
        return ()
    content = read_limited(path, _LONGEST_FILE, SetupError, f"{_LONGEST_FILE} bytes")
    with suppress(OSError):
        if stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IWOTH | stat.S_IROTH):
            raise SetupError(f"{path} can be read by others: chmod 600 {path}.")
    keys = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not keys or any(len(key) < _SHORTEST_KEY for key in keys):
        raise SetupError(
            f"{path} must hold keys of {_SHORTEST_KEY} letters or more, one per line."
        )
    return keys


def _warn_of_strangers(host: str, *, with_keys: bool) -> None:
    out = Console(stderr=True)
    out.print(
        f"WARNING: the gateway listens at {host}, not on this machine alone. Texts and "
        "answers go there in PLAIN TEXT, without TLS: whoever sees that network reads "
        "them" + ("." if with_keys else ", and whoever reaches the port may ask."),
        style="bold red",
        markup=False,
    )
    if not with_keys:
        out.print("Set --api-key-file, or listen at 127.0.0.1.", style="red")


def _log_to_stderr() -> None:
    """A line of JSON for each request; see ``gateway.guard``."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("ditto.gateway")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
