"""The command as a person runs it: in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ditto import __version__
from ditto.cli.exit_codes import ExitCode
from tests.documents import check_document
from tests.folders import bert_folder

ROOT = Path(__file__).parents[2]
DITTO = [sys.executable, "-c", "from ditto.cli import main; main()"]


def ditto(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DITTO, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_version() -> None:
    done = ditto("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"ditto {__version__}")


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["doctor"],
        ["compile"],
        ["explain"],
        ["estimate"],
        ["bench"],
    ],
)
def test_help(command: list[str]) -> None:
    done = ditto(*command, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_doctor_finds_this_machine_well() -> None:
    done = ditto("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All well" in done.stdout
    for check in ("links", "protocols", "SPU FM32 256x256", "SPU FM64 256x256"):
        assert check in done.stdout
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_ended_leaves_no_party_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    model = bert_folder(tmp_path / "bert")
    ends_without_parties(
        [*DITTO, "bench", str(model), "--length", "8", "--repeat", "1000000"],
        number, os.kill, 3,
    )  # fmt: skip


def test_a_command_that_is_ended_leaves_no_socket_behind(tmp_path: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    command = [*DITTO, "serve", "--local", str(model), "--length", "8"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        ends_without_parties(command, signal.SIGINT, os.kill, 3)
    assert not (tmp_path / "ditto" / "warm.sock").exists()


def ends_without_parties(
    command: Sequence[str],
    number: signal.Signals,
    send: Callable[[int, int], None],
    delay: float,
) -> None:
    """Start a command, end it by a signal, and see that its parties are gone too."""
    running = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
    )
    try:
        deadline = time.monotonic() + 60
        while len(parties := workers(running.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(delay)
        sent = time.monotonic()
        send(running.pid, number)
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert time.monotonic() - sent < 5
    assert running.returncode == 128 + number, said
    assert b"Traceback" not in said
    assert len(parties) == 3
    assert not any(Path(f"/proc/{party}").exists() for party in parties)


def workers(parent: int) -> list[int]:
    """The parties' processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            mine = f"\nPPid:\t{parent}\n" in (folder / "status").read_text()
            if mine and b"ditto.runtime.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def test_a_wrong_plan_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.plan").write_text("hello")
    done = ditto("explain", str(tmp_path / "x.plan"))
    assert done.returncode == ExitCode.SETUP
    assert "This is not a plan" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none/x.json", "there is no folder"), (".", "is a folder; name a file")],
)
def test_an_output_that_cannot_be_written_is_refused_before_work(
    tmp_path: Path, path: str, reason: str
) -> None:
    target = str(tmp_path / path)
    done = ditto("bench", "no-model", "--json", target)
    assert done.returncode == ExitCode.SETUP
    assert reason in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_doctor_speaks_to_scripts() -> None:
    done = ditto("doctor", "--json", "-")
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)
    check_document("doctor", findings)
    assert all(finding["ok"] for finding in findings.values())
    assert "SPU FM64 256x256" in findings
