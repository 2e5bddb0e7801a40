"""How long one waits for an answer: the first, the second, and beside a warm process.

The commands are those that people type, each in a process of its own from its start to
its end; folders for plans and sockets are empty at first, and nobody else's.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import show
from ditto.errors import SetupError

DITTO = [sys.executable, "-c", "from ditto.cli import main; main()"]
SHORT = "The weather is quite nice and warm today."
LONG = (
    "The weather is quite nice and warm today, so we went to the river with all of our "
    "friends, and stayed until it was dark."
)
GOALS = {
    "first run": 20.0,
    "second run": 6.0,
    "new length": 8.0,
    "second run of the new length": 6.0,
    "beside a warm process": 6.0,
    "inside one process": 3.5,
}
"""Seconds that an answer of MiniLM may take on two quiet cores."""
_INSIDE = """
import json, sys, time
from ditto import from_pretrained
with from_pretrained(sys.argv[1], warm=False) as model:
    model.predict([sys.argv[2]])
    started = time.perf_counter()
    model.predict([sys.argv[2]])
    print(json.dumps(time.perf_counter() - started))
"""
_PATIENCE = 600.0


def main(
    model: Annotated[Path, typer.Argument(help="A Hugging Face folder of an encoder.")],
    short: Annotated[
        bool, typer.Option("--short", help="The first two runs alone.")
    ] = False,
    json_file: show.JsonFile = None,
) -> None:
    """Seconds from the start of `ditto run MODEL --text ...` to its end.

    The goals are for MiniLM (all-MiniLM-L6-v2) on two cores with nothing else to do;
    where others work, the seconds of processor say more. Two minutes.
    """
    if not (model / "config.json").is_file():
        raise SetupError(f"{model} holds no config.json: name a Hugging Face folder.")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        own = {"DITTO_CACHE": folder, "XDG_RUNTIME_DIR": folder}
        for name, seconds, processor in _measured(model, {**os.environ, **own}, short):
            rows.append((name, seconds, processor))
            typer.echo(f"{name}: {seconds:.1f} s", err=True)
    texts = ["answer"]
    numbers = ["seconds", "of processor", "goal"]
    table = [
        [
            name,
            f"{seconds:.1f}",
            "" if cpu is None else f"{cpu:.1f}",
            f"{GOALS[name]:g}",
        ]
        for name, seconds, cpu in rows
    ]
    show.show(f"Waiting for {model.resolve().name}", texts, numbers, table, None)
    results = [
        {"answer": name, "seconds": round(seconds, 2), "cpu_seconds": cpu}
        for name, seconds, cpu in rows
    ]
    show.write(json_file, results)


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _measured(
    model: Path, environment: Mapping[str, str], short: bool
) -> Iterator[tuple[str, float, float | None]]:
    def run(text: str) -> tuple[float, float]:
        return _timed([*DITTO, "run", str(model), "--text", text], environment)

    yield "first run", *run(SHORT)
    yield "second run", *run(SHORT)
    if short:
        return
    yield "new length", *run(LONG)
    yield "second run of the new length", *run(LONG)
    with _warm(model, environment):
        yield "beside a warm process", run(SHORT)[0], None  # the parties are its own
    inside = [sys.executable, "-c", _INSIDE, str(model), SHORT]
    done = _done(inside, environment)
    yield "inside one process", float(json.loads(done)), None


def _timed(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[float, float]:
    """Seconds, and seconds of processor of the command and its parties."""
    before, started = _processor(), time.perf_counter()
    _done(command, environment)
    return time.perf_counter() - started, round(_processor() - before, 2)


def _done(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(  # noqa: S603  (our own commands)
        command, env=environment, capture_output=True, text=True, timeout=_PATIENCE,
        check=False,
    )  # fmt: skip
    if done.returncode not in (0, 3):  # 3: an answer, and doubts about it
        raise SetupError(f"{' '.join(command[-4:])} failed: {done.stderr[-400:]}")
    return done.stdout


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _warm(model: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """While a process keeps the parties."""
    with subprocess.Popen(  # noqa: S603  (our own command)
        [*DITTO, "serve", "--local", str(model)],
        env=environment, stdout=subprocess.PIPE, text=True,
    ) as serving:  # fmt: skip
        try:
            assert serving.stdout is not None  # noqa: S101  (it is a pipe)
            if not any("ready" in line for line in serving.stdout):
                raise SetupError("The warm process has ended before it was ready.")
            yield
        finally:
            serving.send_signal(signal.SIGINT)


if __name__ == "__main__":
    show.run(main)
