"""``ditto bench``: measurements, each with the command that makes it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ditto.cli.show import console, table

if TYPE_CHECKING:
    from ditto.compiler import Plan

app = typer.Typer(
    help="Measure protocols and engine side by side.", no_args_is_help=True
)

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write the results here, as a list of objects."),
]
MarkdownFile = Annotated[
    Path | None,
    typer.Option("--markdown", help="Write the table here, as Markdown."),
]


@app.command()
def protocols(
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    elements: Annotated[
        int, typer.Option(help="Elements that errors are measured on.", min=64)
    ] = 1 << 22,
    timed_elements: Annotated[
        int, typer.Option(help="Elements that time is measured on.", min=64)
    ] = 10**6,
    repeat: Annotated[
        int, typer.Option(help="Timed runs; the first is a warm-up.", min=1)
    ] = 4,
) -> None:
    """Every protocol: ours, the paper's variant and SPU's own operation.

    Bits are per result element over all parties, and exact. Errors are in units of the
    result's last place. Seconds are medians in three processes over TLS links. Takes
    about five minutes; --elements 100000 --timed-elements 100000 gives a first look.
    """
    from ditto.bench import bench_protocols

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting the parties", total=None)
        results = bench_protocols(
            error_elements=elements,
            time_elements=timed_elements,
            repeat=repeat,
            progress=lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            ),
        )
    texts, numbers = (
        ["protocol", "variant", "parameters"],
        ["bits", "rounds", "mean error", "max error", "seconds"],
    )
    rows = [
        [
            r.protocol,
            r.variant,
            " → ".join(str(v) for v in r.parameters.values()),
            f"{r.bits_per_element:.1f}",
            str(r.rounds),
            f"{r.mean_error_ulp:+.4f}",
            f"{r.max_error_ulp:.3f}",
            f"{r.seconds:.4f}",
        ]
        for r in results
    ]
    _show("Per element, all parties together", texts, numbers, rows, markdown_file)
    _write(json_file, [r.as_json() for r in results])


@app.command()
def links(
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    network: Annotated[
        str, typer.Option(help="loopback, lan, wan, or such as 10ms,1gbit.")
    ] = "loopback",
    repeat: Annotated[int, typer.Option(help="Timed messages of each.", min=1)] = 40,
) -> None:
    """What a message costs over our links, and over SPU's own.

    Three processes send to the next and wait for the one before. CPU is a party's, of
    all its threads: it is what three parties on one machine share.
    """
    from ditto.bench import bench_links
    from ditto.bench.network import find_network

    with Console(stderr=True).status("three parties send"):
        results = bench_links(network=find_network(network), repeat=repeat)
    lines = [
        [
            r["links"],
            f"{r['bytes']:,}",
            f"{r['seconds'] * 1e3:.2f}",
            f"{r['cpu_seconds'] * 1e3:.2f}",
        ]
        for r in results
    ]
    title = f"One message to each party, network {network}"
    _show(title, ["links"], ["bytes", "ms", "ms of CPU"], lines, markdown_file)
    _write(json_file, results)


@app.command()
def matmul(
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    rows: Annotated[int, typer.Option(help="Rows of the left matrix.", min=1)] = 128,
    inner: Annotated[int, typer.Option(help="The dimension summed over.", min=1)] = 768,
    columns: Annotated[
        int, typer.Option(help="Columns of the right matrix.", min=1)
    ] = 3072,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 9,
) -> None:
    """Our matmul with fused truncation beside SPU's FM32 fixed-point matmul.

    Three processes over TLS links run both in turn; the time of a run is that of its
    slowest party, and the median of the runs is shown.
    """
    from ditto.bench import bench_matmul

    with Console(stderr=True).status("three parties multiply"):
        results = bench_matmul((rows, inner), (inner, columns), repeat=repeat)
    native, spu = results
    lines = [[r["variant"], f"{r['bytes']:,}", f"{r['seconds']:.4f}"] for r in results]
    ratios = [f"{native[name] / spu[name]:.3f}" for name in ("bytes", "seconds")]
    lines.append(["native / spu", *ratios])
    _show(native["shape"], ["variant"], ["bytes", "seconds"], lines, markdown_file)
    _write(json_file, results)


@app.command()
def layer(
    profiles: Annotated[
        str, typer.Option(help="Which to run, separated by commas.")
    ] = "spu,puma,paper,ditto",
    gelu: Annotated[
        str,
        typer.Option(help="quad or accurate, in profiles paper and ditto."),
    ] = "quad",
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write each profile's plan into this folder."),
    ] = None,
    tokens: Annotated[int, typer.Option(help="Sequence length.", min=2)] = 128,
    width: Annotated[int, typer.Option(help="Model width.", min=2)] = 768,
    heads: Annotated[int, typer.Option(help="Attention heads.", min=1)] = 12,
    inner: Annotated[int, typer.Option(help="Feed-forward width.", min=2)] = 3072,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 3,
) -> None:
    """One BERT encoder layer in several profiles, compiled and run side by side.

    Three processes over TLS links. Bytes and rounds are of all parties together and
    exact; the error is against the same layer in float. Profiles spu and puma keep
    their own GeLU, and SPU is timed on its own links. About two minutes.
    """
    from ditto.bench import LayerShape, bench_layer
    from ditto.errors import SetupError

    if gelu not in ("quad", "accurate"):
        raise SetupError(f"--gelu is quad or accurate, got {gelu!r}.")
    if width % heads:
        raise SetupError(f"--width {width} is not a multiple of --heads {heads}.")

    def keep(name: str, plan: "Plan") -> None:
        if save:
            save.mkdir(parents=True, exist_ok=True)
            plan.save(save / f"{name}.plan")

    with Console(stderr=True).status("starting the parties") as status:
        results = bench_layer(
            _names(profiles),
            gelu,
            shape=LayerShape(tokens, width, heads, inner),
            repeat=repeat,
            progress=status.update,
            keep=keep,
        )
    base = next((r for r in results if r["profile"] == "puma"), results[0])
    lines = [
        [
            r["profile"],
            r["gelu"],
            f"{r['bytes'] / 1e6:.1f}",
            f"{base['bytes'] / r['bytes']:.2f}",
            f"{r['rounds']}",
            f"{r['seconds']:.2f}",
            f"{base['seconds'] / r['seconds']:.2f}",
            f"{r['mean_abs_error']:.4f}",
        ]
        for r in results
    ]
    title = f"One encoder layer, {tokens} tokens, width {width}"
    fewer, faster = f"fewer than {base['profile']}", f"faster than {base['profile']}"
    numbers = ["MB", fewer, "rounds", "seconds", faster, "mean error"]
    _show(title, ["profile", "gelu"], numbers, lines, markdown_file)
    _write(json_file, results)


@app.command()
def inference(
    models: Annotated[
        str,
        typer.Option(
            help="Shapes (bert-base, bert-large, gpt2-base, gpt2-medium) or checkpoint "
            "folders, separated by commas."
        ),
    ] = "bert-base,gpt2-base",
    profiles: Annotated[
        str, typer.Option(help="Which to run, separated by commas.")
    ] = "spu,puma,paper,ditto",
    gelu: Annotated[
        str, typer.Option(help="quad or accurate, in profiles paper and ditto.")
    ] = "quad",
    seq: Annotated[
        int | None,
        typer.Option(help="Tokens in; 128 for encoders, 32 for GPT-2.", min=2),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts asked together.", min=1)] = 1,
    network: Annotated[
        str,
        typer.Option(
            help="loopback, lan (0.4 ms, 5 Gbit/s), wan (40 ms, 400 Mbit/s), or a "
            "round trip and a bandwidth such as 10ms,1gbit. Shaping needs root."
        ),
    ] = "loopback",
    repeat: Annotated[
        int, typer.Option(help="Timed runs of each, after one that counts.", min=1)
    ] = 1,
    depth: Annotated[
        int | None,
        typer.Option(
            help="Measure with so many layers and one less, and add what a layer "
            "costs for the others. Rows are marked.",
            min=2,
        ),
    ] = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
) -> None:
    """Whole models, as a client asks them: one answer, or a first token and a next.

    Each model and profile gets three new processes over TLS, on three hosts of a shaped
    network if one is asked for, whose round trip and bandwidth are measured first.
    Shapes have random weights. Bytes and rounds are of all parties together and exact;
    the error is against the same model in float. --profiles also takes mpcformer and
    mpcformer-2relu, which run on CrypTen in an environment of their own (BERT shapes
    only; made on first use). A JSON file that exists already is added to, so that runs
    that belong together can be made one by one; ditto bench report draws from it.
    """
    from ditto.bench.inference import Setting, bench_inference, machine
    from ditto.bench.network import find_network
    from ditto.errors import SetupError

    if gelu not in ("quad", "accurate"):
        raise SetupError(f"--gelu is quad or accurate, got {gelu!r}.")
    place = find_network(network)
    setting = Setting(seq, batch, gelu, repeat, depth)
    done: list[dict[str, Any]] = []
    before, about = _rows_in(json_file), {**machine(), "command": _command()}
    jobs = len(_names(models)) * len(_names(profiles))
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn())
    timing = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *timing, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=jobs)

        def on_result(result: dict[str, Any]) -> None:
            done.append(result)
            bar.advance(task)
            if json_file:  # an interrupted run keeps what it has
                whole = {**about, "rows": [*before, *done]}
                json_file.write_text(json.dumps(whole, indent=1) + "\n")

        bench_inference(
            _names(models),
            _names(profiles),
            setting,
            network=place,
            progress=lambda said: bar.update(task, description=said),
            on_result=on_result,
        )
    rows = [line for result in done for line in _inference_lines(result)]
    texts = ["model", "profile", "gelu", "what"]
    numbers = ["MB", "rounds", "seconds", "peak MB a party", "client MB", "mean error"]
    seen = done[0]["network"]
    speed = seen["bandwidth"] / 1e9
    title = (
        f"All parties together; network {seen['name']} by {seen['backend']}, measured "
        f"{1e3 * seen['rtt']:.2f} ms, {speed:.2f} Gbit/s"
    )
    _show(title, texts, numbers, rows, markdown_file)


def _rows_in(json_file: Path | None) -> list[dict[str, Any]]:
    from ditto.bench.results import read_results

    if json_file is None or not json_file.exists():
        return []
    read_results(json_file)  # refuses what is none
    rows: list[dict[str, Any]] = json.loads(json_file.read_text())["rows"]
    return rows


def _command() -> str:
    import sys

    return " ".join(["ditto", *sys.argv[1:]])


@app.command()
def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS.json", help="Files of ditto bench inference --json."
        ),
    ],
    folder: Annotated[
        Path,
        typer.Option(
            "--out", help="Where report.md and its pictures go; made if it is missing."
        ),
    ] = Path("report"),
) -> None:
    """Results as the paper's tables and figure, with the paper's values beside ours.

    Writes report.md and its pictures. Tables: every run, varying length and batch,
    networks side by side, ablation, cost by ring and by function, where the time goes;
    a table is left out if no row is for it. Pictures: bytes against seconds, lines by
    length and by batch, and an icicle of the seconds of one run. Ratios are against
    profile puma, and only within one file and one network: run what you want compared
    into the same file. A dagger marks what was measured on fewer layers than the model
    has and scaled. Needs matplotlib, which the extra named bench brings.
    """
    from ditto.bench.report import write_report

    for path in write_report(files, folder).paths:
        typer.echo(path)


def _inference_lines(result: dict[str, Any]) -> list[list[str]]:
    tokens = f"{result['seq']} tokens"
    if result["batch"] > 1:
        tokens += f" x {result['batch']}"
    if result["measured_layers"] < result["layers"]:
        tokens += f", from {result['measured_layers']} layers"
    parts = [(tokens, result)]
    if "next_token" in result:
        parts = [
            (f"first token after {tokens}", result["first_token"]),
            ("each further token", result["next_token"]),
        ]
    return [
        [
            Path(result["model"]).name,
            result["profile"],
            result["gelu"],
            what,
            f"{found['bytes'] / 1e6:.1f}",
            f"{found['rounds']}",
            f"{found['seconds']:.1f}",
            f"{result['peak_rss_mb']}",
            f"{found.get('upload_bytes', 0) / 1e6:.3f}",
            f"{found['mean_abs_error']:.4f}",
        ]
        for what, found in parts
    ]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Sequence[Sequence[str]],
    markdown_file: Path | None,
) -> None:
    console().print(table(title, texts, numbers, rows))
    if markdown_file:
        headings = [*texts, *numbers]
        rule = ["---"] * len(texts) + ["---:"] * len(numbers)
        lines = [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]
        markdown_file.write_text("\n".join(lines) + "\n")


def _write(path: Path | None, results: list[dict[str, Any]]) -> None:
    if path:
        path.write_text(json.dumps(results, indent=2) + "\n")
