"""Commands on models, as a person runs them."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import ditto
from tests.folders import TEXTS, bert_folder, gpt2_folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_run(tmp_path: Path, texts: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    out = tmp_path / "answers.json"
    done = ditto(
        "run", str(model), "--text", TEXTS[0], "--text", "the [/red] cat [sat]",
        "--calibration", str(texts), "--length", "16", "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = ("private answer", "[/red] cat [sat]", "encoder.layer.1", "kB of keys")
    for word in words:
        assert word in done.stdout
    answers = json.loads(out.read_text())
    assert [a["label"] in ("good", "bad") for a in answers] == [True, True]
    assert [a["doubt"] for a in answers] == [None, None]
    assert max(a["difference"] for a in answers) < 0.02


def test_generate(tmp_path: Path, texts: Path) -> None:
    model = gpt2_folder(tmp_path / "gpt2")
    done = ditto(
        "generate", str(model), "--prompt", "the old", "--tokens", "3",
        "--calibration", str(texts),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the old")
    assert "The float model says the same 3 tokens." in done.stdout
    assert "decoder.layer.1" in done.stdout


def test_eval_and_verify(tmp_path: Path, texts: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    data = tmp_path / "dev.tsv"
    data.write_text(f"sentence\tlabel\n{TEXTS[0]}\t1\n{TEXTS[1]}\t0\n")
    done = ditto(
        "eval", str(model), "--task", "cola", "--data", str(data), "--length", "16",
        "--mode", "simulate", "--calibration", str(texts),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "matthews" in done.stdout
    assert "bits at the tightest place" in done.stdout
    done = ditto(
        "verify", str(model), "--calibration", str(texts), "--length", "16",
        "--limit", "12", "--layers", "2", "--plot", str(tmp_path / "verified.svg"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "0 of 12 texts left a range in the simulator" in done.stdout
    assert "safe" in done.stdout
    assert (tmp_path / "verified.svg").read_text().startswith("<?xml")


def test_bench_inference_of_a_folder_on_a_network(tmp_path: Path) -> None:
    model = gpt2_folder(tmp_path / "gpt2")
    out = tmp_path / "out.json"
    done = ditto(
        "bench", "inference", "--models", str(model), "--profiles", "ditto",
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


def test_bench_inference_at_reduced_depth_and_its_report(tmp_path: Path) -> None:
    """The missing layers are added, and the row is marked."""
    out = tmp_path / "out.json"
    common = ["bench", "inference", "--models", "bert-tiny", "--seq", "8"]
    for more in (["--profiles", "ditto,puma"], ["--profiles", "ditto", "--depth", "2"]):
        done = ditto(*common, *more, "--json", str(out))
        assert done.returncode == 0, done.stderr
    whole, puma, part = json.loads(out.read_text())["rows"]
    assert (part["layers"], part["measured_layers"]) == (3, 2)
    assert part["rounds"] == whole["rounds"]
    assert abs(part["bytes"] - whole["bytes"]) < 0.01 * whole["bytes"]  # types differ
    assert puma["bytes"] > whole["bytes"]
    assert set(whole["spent"]) == {"compute", "waiting", "copies", "python"}
    assert sum(p["bytes"] for p in whole["parts"]) == whole["bytes"]
    done = ditto("bench", "report", str(out), "--out", str(tmp_path / "report"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "report.md").read_text()
    assert "†" in text
    assert (tmp_path / "report" / "scatter.png").exists()


def test_a_model_outside_the_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    done = ditto("run", str(tmp_path), "--text", "the")
    assert done.returncode == 1
    assert "'llama' are not supported" in done.stderr
    assert "Traceback" not in done.stderr
