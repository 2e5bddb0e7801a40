"""Models of a deployment where commands take a folder: ``--deployment``, ``--as``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ditto.cli.bundles import report_answers, report_text
from ditto.cli.report import Report
from ditto.cli.words import put_warnings_in_words
from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.cli.progress import Stages
    from ditto.client.out_of_range import OnOutOfRange
    from ditto.client.remote_client import Client
    from ditto.client.sampling import Sampling
    from ditto.plan import Audit

OfDeployment = Annotated[
    Path | None,
    typer.Option(
        "--deployment",
        help="Ask the parties of this deployment.toml; MODEL_DIR is then the name of a "
        "model, as in acme/minilm:1.",
    ),
]
_AS = "folder with your tls.crt and tls.key, as `ditto pki issue` writes it."
AsMember = Annotated[
    Path | None, typer.Option("--as", help=f"With --deployment: the {_AS}")
]
DeploymentFile = Annotated[
    Path,
    typer.Option(
        "--deployment",
        help="The agreement of the three organisations: deployment.toml.",
    ),
]
CredentialsFolder = Annotated[Path, typer.Option("--as", help=f"The {_AS}")]
Pinned = Annotated[
    str | None,
    typer.Option(
        "--pinned", help="With --deployment: the digest that the release must have."
    ),
]
REMOTE = ("deployment", "credentials", "pinned")


def needed(credentials: Path | None) -> Path:
    """The value of --as, without which no deployment is asked."""
    if credentials is None:
        raise SetupError(f"--deployment needs --as FOLDER: the {_AS}")
    return credentials


@contextmanager
def _open_client(
    deployment: Path,
    credentials: Path | None,
    pinned: dict[str, str],
    shown: "Stages",
    audit: "Audit" = "off",
) -> "Iterator[Client]":
    from ditto.client.remote_client import Client

    folder = needed(credentials)

    def on_progress(rank: int, progress: Mapping[str, Any]) -> None:
        if rank == 0:
            step, steps = int(progress["step"]), int(progress["steps"])
            shown.part(str(progress["scope"]), step, steps)

    shown.stage("asking the parties")
    with Client(
        deployment, folder, pinned=pinned, on_progress=on_progress, audit=audit
    ) as client:
        yield client


def ask_deployment(
    deployment: Path,
    credentials: Path | None,
    model: str,
    pinned: str | None,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    policy: "OnOutOfRange",
    asked: Mapping[str, Any],
    audit: "Audit",
    report: Report,
    shown: "Stages",
) -> None:
    """Report the private answers of a model of a deployment."""
    put_warnings_in_words()
    pins = {model: pinned} if pinned else {}
    with _open_client(deployment, credentials, pins, shown, audit) as client:
        predictions = client.predict(
            model, texts, text_pairs, on_out_of_range=policy, **asked
        )
    report_answers(report, texts, text_pairs, predictions)


def continue_deployment(
    deployment: Path,
    credentials: Path | None,
    model: str,
    pinned: str | None,
    prompt: str,
    tokens: int,
    sampling: "Sampling",
    policy: "OnOutOfRange",
    report: Report,
    shown: "Stages",
) -> None:
    """Report the text that follows a prompt, as it comes."""
    put_warnings_in_words()
    pins = {model: pinned} if pinned else {}
    with _open_client(deployment, credentials, pins, shown) as client:
        stream = client.stream(model, prompt, tokens, sampling, on_out_of_range=policy)
        report_text(report, prompt, stream)
