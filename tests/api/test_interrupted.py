"""Ctrl-C in the middle: it comes back at once, and the model answers the next time."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.folders import bert_folder, gpt2_folder

ROOT = Path(__file__).parents[2]
PROMPT = 2.0
"""Seconds until an interrupted call has come back."""
STAGES = [
    "calibrating on 64 samples",
    "starting three parties",
    "handing out the plan",
    "sharing the weights",
    "embeddings",
    "encoder.layer.0",
]


class Script:
    """The script, in a group of processes of its own, as a terminal would start it."""

    def __init__(self, folder: Path, use: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.interrupted", str(folder), use],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def read_until(self, due: str) -> list[str]:
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line.strip())
            if lines[-1].startswith(due):
                return lines
        raise AssertionError(f"ended before {due!r}: {lines} {self.end()}")

    def end(self) -> str:
        """What it said on stderr."""
        _, said = self.process.communicate(timeout=60)
        return str(said)


def to_the_process(pid: int) -> None:
    """As a notebook's stop button may."""
    os.kill(pid, signal.SIGINT)


def to_the_group(pid: int) -> None:
    """As a terminal does."""
    os.killpg(pid, signal.SIGINT)


@pytest.fixture
def start() -> Iterator[Callable[[Path, str], Script]]:
    started: list[Script] = []

    def script(folder: Path, use: str) -> Script:
        started.append(Script(folder, use))
        return started[-1]

    yield script
    for one in started:
        with one.process:  # closes its pipes
            one.process.kill()


def interrupt(script: Script, send: Callable[[int], None], *moments: str) -> float:
    """Let it work and stop it at the last moment; how long it took to come back."""
    script.tell("interrupted")
    for moment in moments:
        script.read_until(moment)
    sent = time.monotonic()
    send(script.process.pid)
    script.read_until("interrupted")
    return time.monotonic() - sent


@pytest.mark.parametrize("send", [to_the_process, to_the_group])
def test_predict(
    send: Callable[[int], None],
    start: Callable[[Path, str], Script],
    tmp_path: Path,
) -> None:
    script = start(bert_folder(tmp_path, layers=1), "predict")
    for stage in STAGES:
        seconds = interrupt(script, send, stage)
        if not stage.startswith("calibrating"):  # XLA returns when it is done
            assert seconds < PROMPT, stage
    script.tell("once more")
    started = time.monotonic()
    assert float(script.read_until("error")[-1].split()[1]) < 0.02
    assert time.monotonic() - started < 30
    script.tell("again")
    assert float(script.read_until("error")[-1].split()[1]) < 0.02
    script.tell("end")
    assert script.read_until("states")[-1] == "states 0"
    assert script.end() == ""
    assert script.process.returncode == 0


@pytest.mark.parametrize("send", [to_the_process, to_the_group])
def test_generate(
    send: Callable[[int], None],
    start: Callable[[Path, str], Script],
    tmp_path: Path,
) -> None:
    script = start(gpt2_folder(tmp_path, layers=1), "generate")
    for moments in (["decoder.layer.0"], ["token"], ["token", "decoder.layer.0"]):
        seconds = interrupt(script, send, *moments)
        assert seconds < PROMPT or moments == ["token"]  # it compiles the next
    script.tell("once more")
    assert script.read_until("error")[-1] == "error 0.0"
    script.tell("end")
    assert script.read_until("states")[-1] == "states 0"
    assert script.end() == ""
    assert script.process.returncode == 0
