"""How many texts a trio answers, by how many are asked at the same time.

    python -m benchmarks.throughput MODEL_DIR --json FILE --picture FILE

Three parties of `ditto party serve` with a network between them, and threads of one
client at the first party's host, by `ditto bench serve`. Four ways: with one lane or
several, with and without batches.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import show
from benchmarks.network import find_network
from benchmarks.parties import DITTO, Parties, open_parties
from ditto.errors import SetupError
from ditto.files import Json

_NAME = "acme/model:1"
_EACH = 2
"""Requests of each that ask at the same time."""


@dataclass(frozen=True)
class Way:
    """How a trio answers."""

    lanes: int
    batch: int

    @property
    def name(self) -> str:
        """As tables call it."""
        lanes = "one lane" if self.lanes == 1 else f"{self.lanes} lanes"
        return lanes if self.batch == 1 else f"{lanes}, batches of {self.batch}"


def main(
    model_dir: Annotated[Path, typer.Argument(metavar="MODEL_DIR")],
    length: Annotated[int, typer.Option(help="Tokens of a text.", min=2)] = 32,
    batch: Annotated[int, typer.Option(help="Texts of a batch.", min=2)] = 8,
    lanes: Annotated[int, typer.Option(help="Lanes, where several.", min=2)] = 4,
    at_once: Annotated[
        str, typer.Option(help="Who ask at the same time, separated by commas.")
    ] = "1,2,4,8",
    layers: Annotated[
        int | None, typer.Option(help="Only so many of the model's layers.", min=1)
    ] = None,
    network: show.NetworkName = "wan",
    json_file: show.JsonFile = None,
    picture: Annotated[
        Path | None, typer.Option(help="Write a plot here, as PNG or SVG.")
    ] = None,
) -> None:
    """Ask a trio more and more at the same time, in four ways."""
    counts = [int(count) for count in show.names(at_once)]
    result: Json = {
        "model": model_dir.resolve().name,
        "layers": layers,
        "length": length,
        "network": network,
        "command": show.command_line("benchmarks.throughput"),
        "rows": [],
    }
    for several in (1, lanes):
        with open_parties(find_network(network), lanes=several) as parties:
            folder = model_dir
            if layers is not None:
                folder = _first_layers(model_dir, layers, parties.folder / "model")
            _publish(parties, folder, length, batch)
            if parties.hosts is not None:
                result["measured"] = asdict(parties.hosts.measured)
            for way in (Way(several, 1), Way(several, batch)):
                for row in _measured(parties, way, counts):
                    result["rows"].append(row)
                    show.write(json_file, result)
    _show(result["rows"])
    if picture is not None:
        _draw(result["rows"], picture)


def _measured(parties: Parties, way: Way, counts: Sequence[int]) -> Iterator[Json]:
    for count in counts:
        before = parties.processor_seconds()
        asked = _EACH * count
        options = ["--num-prompts", str(asked), "--max-concurrency", str(count)]
        options += ["--num-warmups", str(way.batch)]
        if way.batch == 1:
            options.append("--no-batching")
        found = _ask(parties, options)
        if found["failed"]:
            raise SetupError(f"{found['failed']} of {asked} requests have failed.")
        spent = parties.processor_seconds() - before
        yield {
            "way": way.name,
            "lanes": way.lanes,
            "batch": way.batch,
            "at_once": count,
            "requests": asked,
            "requests_per_second": found["request_throughput"],
            "mean_seconds": round(found["mean_e2el_ms"] / 1000, 3),
            "processor_seconds": round(spent, 1),
            "load_average": round(os.getloadavg()[0], 2),
        }


def _alone(rows: Sequence[Json]) -> float:
    """Requests a second of one lane, asked one at a time."""
    return float(
        next(
            row["requests_per_second"]
            for row in rows
            if (row["lanes"], row["batch"]) == (1, 1)
        )
    )


def _show(rows: Sequence[Json]) -> None:
    cells = [
        [
            row["way"],
            f"{row['at_once']}",
            f"{row['requests_per_second']:.4f}",
            f"{row['requests_per_second'] / _alone(rows):.2f}",
            f"{row['mean_seconds']:.1f}",
        ]
        for row in rows
    ]
    numbers = ["at once", "answers/s", "times one", "seconds of one"]
    show.show("throughput of a trio", ["way"], numbers, cells, None)


def _draw(rows: Sequence[Json], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for way in dict.fromkeys(row["way"] for row in rows):
        mine = [row for row in rows if row["way"] == way]
        counts = [row["at_once"] for row in mine]
        panels[0].plot(counts, [r["requests_per_second"] for r in mine], "o-")
        panels[1].plot(counts, [r["mean_seconds"] for r in mine], "o-", label=way)
    for panel, title in zip(
        panels, ("answers a second", "seconds of an answer"), strict=True
    ):
        panel.set_title(title, loc="left")
        panel.set_xlabel("asked at the same time")
        panel.set_ylim(bottom=0)
    panels[1].legend(fontsize="small")
    figure.savefig(file)


def _first_layers(model_dir: Path, layers: int, out: Path) -> Path:
    """A folder with the same model, of which only so many layers are left."""
    from ditto.models import read_checkpoint, write_checkpoint

    shutil.copytree(model_dir, out)
    read = read_checkpoint(model_dir)
    further = re.compile(r"\blayer\.(\d+)\.")
    tensors = {
        name: tensor
        for name, tensor in read.tensors.items()
        if not (match := further.search(name)) or int(match[1]) < layers
    }
    config = {**read.config, "num_hidden_layers": layers}
    write_checkpoint(replace(read, config=config, tensors=tensors), out)
    return out


def _publish(parties: Parties, model_dir: Path, length: int, batch: int) -> None:
    typer.echo("publishing", err=True)
    owner = parties.member("owner", "acme")
    options = ["--length", str(length), "--batch", "1", "--batch", str(batch)]
    identity = ["--deployment", str(parties.deployment), "--as", str(owner)]
    model = [str(model_dir), "--name", _NAME]
    _run([*DITTO, "owner", "publish", *model, *options], identity)


def _ask(parties: Parties, options: Sequence[str]) -> dict[str, Any]:
    typer.echo("asking", err=True)
    alice, out = parties.member("client", "alice"), parties.folder / "out.json"
    identity = ["--deployment", str(parties.deployment), "--as", str(alice)]
    command = [*DITTO, "bench", "serve", "--model", _NAME, *options]
    _run([*command, "--json", str(out)], identity)
    result: dict[str, Any] = json.loads(out.read_text())
    result.pop("command")
    return result


def _run(command: Sequence[str], identity: Sequence[str]) -> None:
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603  (our own command)
        [*command, *identity], env=os.environ, check=False
    )
    if done.returncode:
        raise SetupError("A command has failed; see above.")
    typer.echo(f"{time.monotonic() - started:.0f} s", err=True)


if __name__ == "__main__":
    show.run(main)
