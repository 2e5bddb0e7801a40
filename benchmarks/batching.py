"""Texts that are asked at the same time: run together, against one after the other."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import show
from benchmarks.network import find_network
from benchmarks.parties import DITTO, Parties, open_parties
from ditto.errors import SetupError

_NAME = "acme/model:1"


def main(
    model_dir: Annotated[Path, typer.Argument(metavar="MODEL_DIR")],
    length: Annotated[int, typer.Option(help="Tokens of a text.", min=2)] = 32,
    batch: Annotated[int, typer.Option(help="Texts of a batch.", min=2)] = 8,
    threads: Annotated[int, typer.Option(help="Who ask at once.", min=1)] = 8,
    requests: Annotated[int, typer.Option(help="Of each kind.", min=1)] = 16,
    layers: Annotated[
        int | None, typer.Option(help="Only so many of the model's layers.", min=1)
    ] = None,
    network: show.NetworkName = "wan",
    json_file: show.JsonFile = None,
) -> None:
    """Three parties of `ditto party serve` with a network between them, one client.

    The model is published for one text and for batches. Threads of one client ask it by
    `ditto bench serve`, from the first party's host, once with --no-batching.
    """
    with open_parties(find_network(network)) as parties:
        owner, name = parties.member("owner", "acme"), model_dir.resolve().name
        if layers is not None:
            model_dir = _first_layers(model_dir, layers, parties.folder / name)
        shape = ["--length", str(length)]
        batches = ["--batch", "1", "--batch", str(batch)]
        _publish(parties, owner, model_dir, [*shape, *batches])
        load = ["--num-prompts", str(requests), "--max-concurrency", str(threads)]
        load += ["--num-warmups", str(batch)]
        alone = _ask(parties, [*load, "--no-batching"])
        batched = _ask(parties, load)
        measured = None if parties.hosts is None else asdict(parties.hosts.measured)
    ratio = batched["request_throughput"] / alone["request_throughput"]
    result = {
        "model": name,
        "layers": layers,
        "length": length,
        "batch": batch,
        "threads": threads,
        "network": network,
        "measured": measured,
        "load_average": round(os.getloadavg()[0], 2),
        "ratio": round(ratio, 3),
        "one_at_a_time": alone,
        "batched": batched,
        "command": show.command_line("benchmarks.batching"),
    }
    rows = [
        [
            name,
            f"{each['request_throughput']:.4f}",
            f"{each['mean_e2el_ms'] / 1000:.1f}",
        ]
        for name, each in (("one at a time", alone), (f"batches of {batch}", batched))
    ]
    numbers = ["answers/s", "mean seconds of one"]
    show.show(f"{threads} at once, {ratio:.2f}x", ["run"], numbers, rows, None)
    show.write(json_file, result)


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


def _publish(
    parties: Parties,
    owner: Path,
    model_dir: Path,
    options: Sequence[str],
) -> None:
    typer.echo("publishing", err=True)
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
