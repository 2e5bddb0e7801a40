"""The benchmarks' commands as a person runs them: in a process of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ditto.native.library import levels
from tests.cli.test_cli import ROOT, ditto, ends_without_parties
from tests.folders import bert_folder, gpt2_folder

COMMANDS = (
    "audit", "chaos", "chat_prompts", "check_cost", "compiling", "contexts", "everyday",
    "first_answer", "inference", "kernels", "large_models", "layer", "links",
    "matmul", "ordinary_texts", "pictures", "plans", "protocols", "public_prefix",
    "ranges", "report", "safety", "search", "service", "simulation", "smollm2",
    "soak", "spu_cost", "throughput", "trios", "varied_prompts",
)  # fmt: skip


def benchmark(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    done = benchmark(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"python -m benchmarks.{name}" in done.stdout


def test_a_mistake_ends_in_a_sentence() -> None:
    done = benchmark("layer", "--gelu", "none")
    assert done.returncode == 4
    assert "--gelu is quad or accurate" in done.stderr
    assert "Traceback" not in done.stderr


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
    command = [sys.executable, "-m", "benchmarks.links", "--repeat", "1000000"]
    ends_without_parties(command, number, send, delay)


def test_all_kernels_give_the_same_words(tmp_path: Path) -> None:
    """The command ends with an error if two of them disagree."""
    results = tmp_path / "kernels.json"
    done = benchmark("kernels", "--repeat", "2", "--json", str(results))
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())
    assert {row["kernel"] for row in rows} == {"XLA", *(each.name for each in levels())}


def test_everyday_measures_two_runs_of_a_small_model(tmp_path: Path) -> None:
    model, results = bert_folder(tmp_path / "bert", layers=1), tmp_path / "results.json"
    done = benchmark("everyday", str(model), "--short", "--json", str(results))
    assert done.returncode == 0, done.stderr
    first, second = json.loads(results.read_text())
    assert (first["answer"], second["answer"]) == ("first run", "second run")
    assert second["cpu_seconds"] < first["cpu_seconds"]


def test_protocols_holds_the_figures(tmp_path: Path) -> None:
    """Bits and rounds at their declared figures; errors on fewer elements."""
    out = tmp_path / "protocols.json"
    done = benchmark(
        "protocols", "--json", str(out), "--elements", "24000",
        "--timed-elements", "3000", "--repeat", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert {row["variant"] for row in rows} == {
        "ours", "ours-one-round", "ours-three-rounds", "provable", "paper", "spu",
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
    assert figures("truncate", "provable", **cut) == (60, 2)
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
    assert figures("matmul + recast", "ours", **fused) == (112, 3)
    assert figures("matmul + recast", "spu", operands="fxp32.8") == (256, 3)
    assert figures("truncate", "spu", operands="fxp32.8") == (160, 2)
    ours = [row for row in rows if row["variant"].startswith("ours")]
    pieces = [row for row in ours if row["protocol"] == "piecewise quadratic"]
    assert all(row["max_error_ulp"] <= 64 for row in pieces)  # x with 8 bits, slope 3
    # the errors of these are not of rounding
    powers = [row for row in ours if row["protocol"] == "exponential"]
    assert all(row["max_error_ulp"] <= 58 for row in powers)  # 0.0018, up to e
    coarse = ("coarse max", "exponential", "piecewise quadratic", "reciprocal", "rsqrt")
    exact = [row for row in ours if row["protocol"] not in coarse]
    assert all(row["max_error_ulp"] <= 1.5 for row in exact)
    assert all(row["seconds"] > 0 for row in rows)


def test_links(tmp_path: Path) -> None:
    out = tmp_path / "links.json"
    done = benchmark("links", "--repeat", "3", "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert [(row["links"], row["bytes"]) for row in rows[:3]] == [
        ("ditto", 64),
        ("spu", 64),
        ("ditto", 1 << 14),
    ]
    assert all(row["seconds"] > 0 for row in rows)


def test_matmul(tmp_path: Path) -> None:
    out = tmp_path / "matmul.json"
    done = benchmark(
        "matmul", "--json", str(out), "--rows", "64", "--inner", "96",
        "--columns", "384", "--repeat", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    native, spu = json.loads(out.read_text())
    assert (native["variant"], spu["variant"]) == ("native", "spu")
    assert native["bytes"] == 64 * 384 * 112 // 8
    assert spu["bytes"] == 64 * 384 * 256 // 8


def test_layer_holds_the_figures(tmp_path: Path) -> None:
    """One BERT-base layer, at full size: what the compiler has to find by itself."""
    out = tmp_path / "layer.json"
    done = benchmark(
        "layer", "--profiles", "puma,ditto", "--json", str(out),
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


def test_layer_with_accurate_gelu(tmp_path: Path) -> None:
    out = tmp_path / "layer.json"
    done = benchmark(
        "layer", "--profiles", "ditto", "--gelu", "accurate", "--json",
        str(out), "--repeat", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (ours,) = json.loads(out.read_text())
    assert ours["bytes"] <= 140e6
    assert ours["mean_abs_error"] <= 0.01


def test_layer_in_all_profiles_small(tmp_path: Path) -> None:
    out = tmp_path / "layer.json"
    done = benchmark(
        "layer", "--json", str(out), "--tokens", "8", "--width", "32",
        "--heads", "2", "--inner", "64", "--repeat", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(out.read_text())
    assert [r["profile"] for r in results] == ["spu", "puma", "paper", "ditto"]
    sent = [r["bytes"] for r in results]
    assert sent == sorted(sent, reverse=True)


def test_inference_of_a_folder_on_a_network(tmp_path: Path) -> None:
    model = gpt2_folder(tmp_path / "gpt2")
    out = tmp_path / "out.json"
    done = benchmark(
        "inference", "--models", str(model), "--profiles", "ditto",
        "--seq", "8", "--network", "2ms,1gbit", "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(out.read_text())["rows"]
    assert found["seq"] == 8
    assert found["network"]["backend"] in ("netem", "tun", "loopback")
    assert found["network"]["rtt"] > 0
    assert found["bytes"] == found["first_token"]["bytes"] > 0
    assert found["next_token"]["rounds"] > 0
    assert found["peak_rss_mb"] > 0


def test_inference_at_reduced_depth_and_its_report(tmp_path: Path) -> None:
    """The missing layers are added, and the row is marked."""
    out = tmp_path / "out.json"
    common = ["inference", "--models", "bert-tiny", "--seq", "8"]
    for more in (["--profiles", "ditto,puma"], ["--profiles", "ditto", "--depth", "2"]):
        done = benchmark(*common, *more, "--json", str(out))
        assert done.returncode == 0, done.stderr
    whole, puma, part = json.loads(out.read_text())["rows"]
    assert (part["layers"], part["measured_layers"]) == (3, 2)
    assert part["rounds"] == whole["rounds"]
    assert abs(part["bytes"] - whole["bytes"]) < 0.01 * whole["bytes"]  # types differ
    assert puma["bytes"] > whole["bytes"]
    assert set(whole["spent"]) == {"compute", "waiting", "copies", "python"}
    assert sum(p["bytes"] for p in whole["parts"]) == whole["bytes"]
    done = benchmark("report", str(out), "--out", str(tmp_path / "report"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "report.md").read_text()
    assert "†" in text
    assert (tmp_path / "report" / "scatter.png").exists()


def test_large_models_costs_what_parties_measure(tmp_path: Path) -> None:
    """Of one and of two layers, to the byte: or the command would have refused."""
    file = tmp_path / "large.json"
    told = ("--presets", "llama-tiny", "--measure", "--json", str(file))
    done = benchmark("large_models", *told)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    one, two = row["of_layers"]
    for what in ("prefill", "token"):
        assert row[what]["bytes"] == two[what]["bytes"] > one[what]["bytes"] > 0
        assert row[what]["seconds_wan"] > row[what]["seconds_lan"] > 0
        assert [each["layers"] for each in row["measured"]] == [1, 2]
        assert all(each[what]["processor_seconds"] > 0 for each in row["measured"])
    assert row["longest_rtt_ms"] > 40
