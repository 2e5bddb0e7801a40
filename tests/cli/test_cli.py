"""The command as a person runs it: in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ditto import __version__

DITTO = [sys.executable, "-c", "from ditto.cli import main; main()"]


def ditto(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DITTO, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def test_version() -> None:
    done = ditto("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"ditto {__version__}")


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["doctor"],
        ["explain"],
        ["estimate"],
        ["bench"],
        ["bench", "protocols"],
        ["bench", "layer"],
        ["bench", "links"],
        ["bench", "inference"],
        ["bench", "report"],
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


def test_bench_protocols_holds_the_figures(tmp_path: Path) -> None:
    """Bits and rounds at their declared figures; errors on fewer elements."""
    out = tmp_path / "protocols.json"
    done = ditto(
        "bench", "protocols", "--json", str(out), "--elements", "24000",
        "--timed-elements", "3000", "--repeat", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert {row["variant"] for row in rows} == {
        "ours", "ours-one-round", "paper", "spu",
    }  # fmt: skip

    def figures(protocol: str, variant: str, **parameters: str) -> tuple[float, int]:
        (row,) = [
            row
            for row in rows
            if (row["protocol"], row["variant"]) == (protocol, variant)
            and row["parameters"] == parameters
        ]
        return row["bits_per_element"], row["rounds"]

    cut = {"from": "fxp32.24", "to": "fxp32.12"}
    assert figures("truncate", "ours", **cut) == (68, 2)
    assert figures("truncate", "ours-one-round", **cut) == (80, 1)
    up = {"from": "fxp32.8", "to": "fxp64.18"}
    assert figures("upcast", "ours", **up) == (160, 2)
    assert figures("upcast", "ours-one-round", **up) == (192, 1)
    assert figures("upcast", "paper", **up) == (320, 3)
    wide = {"from": "fxp64.36", "to": "fxp64.18"}
    assert figures("truncate", "ours", **wide) == (118, 2)
    assert figures("truncate", "ours-one-round", **wide) == (136, 1)
    both = {"from": "fxp32.20", "to": "fxp64.18"}
    assert figures("truncate + upcast", "ours", **both) == (166, 2)
    down = {"from": "fxp64.18", "to": "fxp32.8"}
    assert figures("downcast", "ours", **down) == (0, 0)
    fused = {"operands": "fxp32.12", "to": "fxp32.12"}
    assert figures("matmul + recast", "ours", **fused) == (132, 3)
    assert figures("matmul + recast", "spu", operands="fxp32.8") == (256, 3)
    assert figures("truncate", "spu", operands="fxp32.8") == (160, 2)
    ours = [row for row in rows if row["variant"].startswith("ours")]
    coarse = ("coarse max", "reciprocal", "rsqrt")  # their errors are not of rounding
    exact = [row for row in ours if row["protocol"] not in coarse]
    assert all(row["max_error_ulp"] <= 1.5 for row in exact)
    assert all(row["seconds"] > 0 for row in rows)


def test_bench_links(tmp_path: Path) -> None:
    out = tmp_path / "links.json"
    done = ditto("bench", "links", "--repeat", "3", "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert [(row["links"], row["bytes"]) for row in rows[:3]] == [
        ("ditto", 64),
        ("spu", 64),
        ("ditto", 1 << 14),
    ]
    assert all(row["seconds"] > 0 for row in rows)


@pytest.mark.parametrize("delay", [0, 3])  # while they start, and in a call
@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGTERM, os.kill),
        (signal.SIGINT, os.kill),
        (signal.SIGINT, os.killpg),  # as a terminal does
    ],
)
def test_a_command_that_is_ended_leaves_no_party_behind(
    number: signal.Signals, send: Callable[[int, int], None], delay: float
) -> None:
    running = subprocess.Popen(
        [*DITTO, "bench", "links", "--repeat", "1000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
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
            if mine and b"ditto.engine.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def test_bench_matmul(tmp_path: Path) -> None:
    out = tmp_path / "matmul.json"
    done = ditto(
        "bench", "matmul", "--json", str(out), "--rows", "64", "--inner", "96",
        "--columns", "384", "--repeat", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    native, spu = json.loads(out.read_text())
    assert (native["variant"], spu["variant"]) == ("native", "spu")
    assert native["bytes"] == 64 * 384 * 132 // 8
    assert spu["bytes"] == 64 * 384 * 256 // 8


def test_bench_layer_holds_the_figures(tmp_path: Path) -> None:
    """One BERT-base layer, at full size: what the compiler has to find by itself."""
    out = tmp_path / "layer.json"
    done = ditto(
        "bench", "layer", "--profiles", "puma,ditto", "--json", str(out),
        "--save", str(tmp_path / "plans"), "--repeat", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    puma, ours = json.loads(out.read_text())
    assert (puma["profile"], puma["gelu"]) == ("puma", "puma")
    assert (ours["profile"], ours["gelu"]) == ("ditto", "quad")
    assert ours["bytes"] <= 66e6
    assert 9 * ours["bytes"] <= puma["bytes"]
    assert 4 * ours["rounds"] <= puma["rounds"]
    assert ours["mean_abs_error"] <= 0.003
    assert ours["bytes"] == sum(step["bytes"] for step in ours["steps"])
    assert puma["seconds"] > 6 * ours["seconds"]  # 9 and more on a quiet machine
    plan = str(tmp_path / "plans" / "ditto.plan")
    picture = tmp_path / "layer.svg"
    explained = ditto("explain", plan, "--svg", str(picture))
    assert explained.returncode == 0, explained.stderr
    assert "feed_forward" in explained.stdout
    assert picture.read_text().startswith("<svg")
    estimated = ditto("estimate", plan, "--rtt", "40ms", "--bandwidth", "400mbit")
    assert estimated.returncode == 0, estimated.stderr
    assert "rounds" in estimated.stdout


def test_bench_layer_with_accurate_gelu(tmp_path: Path) -> None:
    out = tmp_path / "layer.json"
    done = ditto(
        "bench", "layer", "--profiles", "ditto", "--gelu", "accurate", "--json",
        str(out), "--repeat", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (ours,) = json.loads(out.read_text())
    assert ours["bytes"] <= 140e6
    assert ours["mean_abs_error"] <= 0.01


def test_bench_layer_in_all_profiles_small(tmp_path: Path) -> None:
    out = tmp_path / "layer.json"
    done = ditto(
        "bench", "layer", "--json", str(out), "--tokens", "8", "--width", "32",
        "--heads", "2", "--inner", "64", "--repeat", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [r["profile"] for r in results] == ["spu", "puma", "paper", "ditto"]
    sent = [r["bytes"] for r in results]
    assert sent == sorted(sent, reverse=True)


def test_a_wrong_plan_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.plan").write_text("hello")
    done = ditto("explain", str(tmp_path / "x.plan"))
    assert done.returncode == 1
    assert "This is not a plan" in done.stderr
    assert "Traceback" not in done.stderr
