"""``ditto bench serve``: what a service gives to many who ask at the same time."""

import itertools
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ditto.cli.exit_codes import ExitCode
from ditto.cli.progress import stages
from ditto.cli.remote import AsMember, needed
from ditto.cli.report import JsonFile, Quiet, Report, Verbose, check_writable
from ditto.cli.show import table
from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.bench.serving import Ask
    from ditto.files import Json

_TIMES = {
    "ttft": "Time to first token",
    "tpot": "Time per token after the first",
    "itl": "Between two tokens",
    "e2el": "Whole answer",
}


def bench_serve(
    model: Annotated[
        str, typer.Option(help="The model that is asked, as in acme/minilm:1.")
    ],
    deployment: Annotated[
        Path | None,
        typer.Option(help="Ask the parties of this deployment.toml."),
    ] = None,
    identity: AsMember = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Ask a gateway instead: its URL, with /v1."),
    ] = None,
    num_prompts: Annotated[
        int, typer.Option(help="Requests in all, after those to warm up.", min=1)
    ] = 32,
    num_warmups: Annotated[
        int,
        typer.Option(
            help="Requests before that are not counted; a plan is compiled when it "
            "first runs, one for batches too.",
            min=1,
        ),
    ] = 1,
    max_concurrency: Annotated[
        int, typer.Option(help="Requests at a time.", min=1, max=512)
    ] = 8,
    request_rate: Annotated[
        float,
        typer.Option(
            help="Requests that come per second, at random moments; without it, as "
            "soon as there is room.",
            min=1e-6,
        ),
    ] = math.inf,
    output_len: Annotated[
        int, typer.Option(help="Tokens to generate, of a model that does.", min=1)
    ] = 8,
    no_batching: Annotated[
        bool,
        typer.Option(
            "--no-batching",
            help="With --deployment: do not run together what is asked at once.",
        ),
    ] = False,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Texts to ask about, one per line; eight everyday sentences if none."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a request may take.", min=1)
    ] = 600.0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw when each was sent and what it took: PNG or SVG."),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure a service as vLLM's `bench serve` does, and in its words.

    Requests go to the parties of a deployment, by one client whose texts are run
    together if the model was published with several batch sizes; or to a gateway. A
    text that is too long for the model is cut.
    """
    from ditto.bench.serving import measure_requests, summarise
    from ditto.errors import TextCutWarning
    from ditto.models import Head

    if (deployment is None) == (base_url is None):
        raise SetupError(
            "Say who is asked: --deployment AGREEMENT --as FOLDER, or --base-url URL."
        )
    report = Report(json_file)
    warnings.simplefilter("ignore", TextCutWarning)
    if plot is not None:
        from ditto.extras import require

        require("matplotlib")
        check_writable(plot)
    prompts = list(itertools.islice(itertools.cycle(_read(texts)), num_prompts))
    with stages(quiet=quiet, verbose=verbose) as shown:
        shown.stage("asking what is served")
        if deployment is not None:
            opened = _of_deployment(
                deployment,
                identity,
                model,
                output_len,
                timeout,
                batching=not no_batching,
            )
        else:
            opened = _of_gateway(base_url or "", model, output_len, timeout)
        with opened as (ask, head):
            shown.stage("warming up")
            for _ in ask(prompts[0]):  # raises, if nothing can be asked
                pass
            more = itertools.islice(itertools.cycle(prompts), num_warmups - 1)
            measure_requests(ask, list(more), max_concurrency=max_concurrency)
            requests = measure_requests(
                ask,
                prompts,
                max_concurrency=max_concurrency,
                request_rate=request_rate,
                on_done=lambda done, total: shown.count("answered", done, total),
            )
    summary = summarise(requests, generates=head is Head.TEXT_GENERATION)
    asked = {
        "model": model,
        "num_prompts": num_prompts,
        "max_concurrency": max_concurrency,
        "request_rate": None if math.isinf(request_rate) else request_rate,
    }
    command = " ".join(["ditto", *sys.argv[1:]])
    report.write({**asked, **summary, "command": command})
    title = f"{model}, {max_concurrency} at a time"
    for made in _tables(title, summary):
        report.print(made)
    if plot is not None:
        from ditto.bench.serving_plot import plot_requests

        plot_requests(requests, plot, title)
    if summary["failed"]:
        raise typer.Exit(ExitCode.FAILED)


def _tables(title: str, summary: "Json") -> Iterator[Table]:
    counts = [
        ["Completed", summary["completed"]],
        ["Failed", summary["failed"]],
        ["Duration (s)", f"{summary['duration']:.2f}"],
        ["Request throughput (req/s)", f"{summary['request_throughput']:.3f}"],
    ]
    if "output_throughput" in summary:
        counts.append(
            ["Output throughput (tok/s)", f"{summary['output_throughput']:.3f}"]
        )
    counts += [[f"Failed: {code}", n] for code, n in summary["errors"].items()]
    yield table(title, ["what"], ["measured"], counts)
    rows = [
        [f"{label} ({name})"]
        + [f"{summary[f'{kind}_{name}_ms']:.1f}" for kind in ("mean", "median", "p99")]
        for name, label in _TIMES.items()
        if f"mean_{name}_ms" in summary
    ]
    if rows:
        headings = ["mean ms", "median ms", "p99 ms"]
        yield table("Times of a request", ["what"], headings, rows)


def _read(path: Path | None) -> list[str]:
    from ditto.bench.serving import TEXTS
    from ditto.files import read_limited

    if path is None:
        return list(TEXTS)
    data = read_limited(path, 64 << 20, SetupError, "64 MiB")
    try:
        lines = [line for line in data.decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise SetupError(f"{path} is not text in UTF-8.") from None
    if not lines:
        raise SetupError(f"{path} has no text.")
    return lines


@contextmanager
def _of_deployment(
    deployment: Path,
    identity: Path | None,
    model: str,
    tokens: int,
    timeout: float,
    *,
    batching: bool,
) -> "Iterator[tuple[Ask, object]]":
    from ditto.client.remote_client import Client
    from ditto.errors import UnknownModelError
    from ditto.models import Head

    with Client(deployment, needed(identity), batching=batching) as client:
        heads = {card.name: card.head for card in client.models()}
        if model not in heads:
            names = ", ".join(sorted(heads)) or "none"
            raise UnknownModelError(
                f"The deployment has no model {model[:80]!r}; it has: {names}."
            )
        head = heads[model]

        def ask(text: str) -> Iterator[object]:
            if head is Head.TEXT_GENERATION:
                yield from client.stream(model, text, tokens, timeout=timeout)
            else:
                yield client.predict(model, [text], too_long="cut", timeout=timeout)

        yield ask, head


@contextmanager
def _of_gateway(
    base_url: str, model: str, tokens: int, timeout: float
) -> "Iterator[tuple[Ask, object]]":
    from ditto.bench.gateway import GatewayAddress, GatewayModel

    asked = GatewayModel(GatewayAddress.parse(base_url), model, tokens, timeout)
    head = asked.head()
    yield asked.asker(head), head
