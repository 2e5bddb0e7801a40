"""Whole models in several profiles, on a network: bytes, rounds, seconds, memory.

Models are shapes with random weights, whose cost is that of trained ones, or folders.
Every model and profile gets three new processes over TLS, each on a host of its own if
the network is shaped. The first run counts and warms up, the others are timed; SPU's
profiles are timed with SPU on its own links, without our mailbox between.

A model may be measured at a reduced ``depth``: then it is run with ``depth`` layers and
with one less, and what a layer costs is added for those that are missing, and the row
says so (``measured_layers``). Seconds are an estimate this way; bytes of SPU's profiles
are exact, ours nearly, since types differ from layer to layer.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from benchmarks import show
from benchmarks.bare import BareTrio, use_bare_links
from benchmarks.layer import with_gelu
from benchmarks.mpcformer import EncoderShape, Softmax, bench_mpcformer
from benchmarks.network import NETWORKS, Hosts, Network, find_network, open_hosts
from benchmarks.report.results import read_results
from ditto.bench import inference
from ditto.bench.inference import ENCODER_LENGTH, machine
from ditto.cli.bench import COLUMNS, cost_lines
from ditto.client import Tokenizer
from ditto.errors import SetupError
from ditto.frames import Json
from ditto.models import PRESETS, Model, load_model, preset_layers, random_model
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples, Samples, TextSamples
from ditto.runtime import ProcessTrio, Trio

MPCFORMER: dict[str, Softmax] = {"mpcformer": "softmax", "mpcformer-2relu": "2relu"}
"""Baselines that are no profile, and their softmax."""

Progress = Callable[[str], None]
_ROWS = 4
"""Rows of calibration: random weights do not repay more."""
_SUMS = ("bytes", "rounds", "seconds")


@dataclass(frozen=True)
class Setting(inference.Setting):
    """What is measured, beside model and profile."""

    gelu: str = "quad"
    depth: int | None = None


def bench_inference(
    models: Sequence[str],
    profiles: Sequence[str],
    setting: Setting | None = None,
    *,
    network: Network | None = None,
    progress: Progress = lambda _: None,
    on_result: Callable[[Json], None] = lambda _: None,
) -> list[Json]:
    """Every model in every profile."""
    chosen, place = setting or Setting(), network or NETWORKS["loopback"]
    results = []
    for name in models:
        for profile in profiles:
            report = partial(_report, progress, f"{name}, {profile}")
            report(f"opening the network {place.name}")
            with open_hosts(place) as hosts:
                measured = asdict(hosts.measured)
                if profile in MPCFORMER:
                    row = _mpcformer(name, profile, chosen, hosts, report)
                else:
                    row = _scaled(name, profile, chosen, hosts, report)
            row |= {"model": Path(name).name, "batch": chosen.batch}
            row["network"] = {"name": place.name, **measured}
            results.append(row)
            on_result(row)
    return results


def _report(progress: Progress, what: str, message: str) -> None:
    progress(f"{what}: {message}")


def _load(name: str, layers: int | None) -> tuple[Model, Samples]:
    if name in PRESETS:
        depth = {} if layers is None else {"num_hidden_layers": layers}
        model = random_model(name, **depth)
        return model, RandomSamples(model.config.vocab_size)
    if layers is not None:
        raise SetupError("Only shapes can be measured at a reduced depth.")
    if Path(name).is_dir():
        return load_model(name), TextSamples(Tokenizer.load(name))
    raise SetupError(f"{name!r} is neither a folder nor one of {', '.join(PRESETS)}.")


def _scaled(
    name: str, profile: str, setting: Setting, hosts: Hosts, progress: Progress
) -> Json:
    depth = setting.depth
    if depth is None:
        model, samples = _load(name, None)
        layers = model.config.num_hidden_layers
        row = _measure(model, samples, profile, setting, hosts, progress)
        return {**row, "layers": layers, "measured_layers": layers}
    layers = preset_layers(name) if name in PRESETS else 0
    if not 2 <= depth < layers:
        raise SetupError(f"--depth lies between 2 and {layers - 1} for {name!r}.")
    rows = []
    for k in (depth - 1, depth):
        report = partial(_report, progress, f"{k} of {layers} layers")
        rows.append(_measure(*_load(name, k), profile, setting, hosts, report))
    return _stretched(rows[0], rows[1], layers, depth)


def _stretched(less: Json, row: Json, layers: int, depth: int) -> Json:
    """A row of ``depth`` layers with those that are missing added."""

    def stretch(a: Json, b: Json) -> Json:
        more = {k: b[k] + (layers - depth) * max(b[k] - a[k], 0) for k in _SUMS}
        return {**b, **more, "seconds": round(more["seconds"], 3)}

    whole = stretch(less, row)
    for part in ("first_token", "next_token"):
        if part in row:
            whole[part] = stretch(less[part], row[part])
    for name in ("parts", "spent", "runs"):
        whole.pop(name, None)
    return {**whole, "layers": layers, "measured_layers": depth}


def _measure(
    model: Model,
    samples: Samples,
    profile: str,
    setting: Setting,
    hosts: Hosts,
    progress: Progress,
) -> Json:
    network = hosts.network if hosts.network.shaped else None
    chosen = with_gelu(profile, setting.gelu)
    plans = Plans(model, chosen, samples, rows=_ROWS, network=network)
    spu_computes = chosen.engine != "rings"
    progress("starting three parties")
    start = BareTrio if spu_computes else ProcessTrio
    with start(timeout=900, hosts=hosts.hosts, prefixes=hosts.prefixes) as trio:
        return inference.measure(
            model,
            plans,
            samples,
            trio,
            setting,
            on_stage=progress,
            on_part=lambda part, step, steps: progress(
                f"{part} ({step} of {steps} steps)"
            ),
            timing=partial(_bare_links, trio) if spu_computes else nullcontext,
        )


@contextmanager
def _bare_links(trio: Trio) -> Iterator[None]:
    """Where SPU computes, it is timed on links of its own, without ours between."""
    trio.call(use_bare_links, {"bare": True})
    yield
    trio.call(use_bare_links, {"bare": False})


def _mpcformer(
    name: str, profile: str, setting: Setting, hosts: Hosts, progress: Progress
) -> Json:
    shape = PRESETS.get(name, {})
    if shape.get("model_type") != "bert":
        raise SetupError(f"{profile} is measured on BERT's shapes, not on {name!r}.")
    seq = setting.length or ENCODER_LENGTH
    layers, depth = preset_layers(name), setting.depth
    rows = [
        bench_mpcformer(
            EncoderShape(
                k,
                shape["hidden_size"],
                shape["num_attention_heads"],
                shape["intermediate_size"],
            ),
            seq=seq,
            batch=setting.batch,
            softmax=MPCFORMER[profile],
            addresses=tuple(host.rsplit(":", 1)[0] for host in hosts.hosts[:2]),
            prefixes=tuple(hosts.prefixes[:2]),
            repeat=setting.repeat,
            progress=progress,
        )
        for k in ((layers,) if depth is None else (depth - 1, depth))
    ]
    row = rows[-1] if depth is None else _stretched(rows[0], rows[1], layers, depth)
    return {
        **row,
        "gelu": "quad",
        "seq": seq,
        "layers": layers,
        "measured_layers": depth or layers,
    }


def main(
    models: Annotated[
        str,
        typer.Option(
            help="Shapes (bert-base, bert-large, gpt2-base, gpt2-medium) or checkpoint "
            "folders, separated by commas."
        ),
    ] = "bert-base,gpt2-base",
    profiles: show.Profiles = "spu,puma,paper,ditto",
    gelu: Annotated[
        str, typer.Option(help="quad or accurate, in profiles paper and ditto.")
    ] = "quad",
    seq: Annotated[
        int | None,
        typer.Option(help="Tokens in; 128 for encoders, 32 for GPT-2.", min=2),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts asked together.", min=1)] = 1,
    network: show.NetworkName = "loopback",
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
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
) -> None:
    """Whole models, as a client asks them: one answer, or a first token and a next.

    Each model and profile gets three new processes over TLS, on three hosts of a shaped
    network if one is asked for, whose round trip and bandwidth are measured first.
    Shapes have random weights. Bytes and rounds are of all parties together and exact;
    the error is against the same model in float. --profiles also takes mpcformer and
    mpcformer-2relu, which run on CrypTen in an environment of their own (BERT shapes
    only; made on first use). A JSON file that exists already is added to, so that runs
    that belong together can be made one by one; python -m benchmarks.report draws from
    it.
    """
    if gelu not in ("quad", "accurate"):
        raise SetupError(f"--gelu is quad or accurate, got {gelu!r}.")
    place = find_network(network)
    setting = Setting(seq, batch, repeat, gelu, depth)
    done: list[Json] = []
    before = _rows_in(json_file)
    about = {**machine(), "command": show.command_line("benchmarks.inference")}
    jobs = len(show.names(models)) * len(show.names(profiles))
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn())
    timing = (TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, *timing, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=jobs)

        def on_result(result: Json) -> None:
            done.append(result)
            bar.advance(task)
            if json_file:  # an interrupted run keeps what it has
                whole = {**about, "rows": [*before, *done]}
                json_file.write_text(json.dumps(whole, indent=1) + "\n")

        bench_inference(
            show.names(models),
            show.names(profiles),
            setting,
            network=place,
            progress=lambda message: bar.update(task, description=message),
            on_result=on_result,
        )
    rows = [
        [result["model"], result["profile"], result["gelu"], *line]
        for result in done
        for line in cost_lines(result)
    ]
    texts = ["model", "profile", "gelu", "what"]
    measured = done[0]["network"]
    trip, speed = 1e3 * measured["rtt"], measured["bandwidth"] / 1e9
    title = (
        f"All parties together; network {measured['name']} by {measured['backend']}, "
        f"measured {trip:.2f} ms, {speed:.2f} Gbit/s"
    )
    show.show(title, texts, COLUMNS, rows, markdown_file)


def _rows_in(json_file: Path | None) -> list[Json]:
    if json_file is None or not json_file.exists():
        return []
    read_results(json_file)  # refuses what is none
    rows: list[Json] = json.loads(json_file.read_text())["rows"]
    return rows


if __name__ == "__main__":
    show.run(main)
