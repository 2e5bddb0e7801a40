"""Commands on models, as a person runs them."""

import json
from pathlib import Path

import pytest

from benchmarks.report.results import read_results
from ditto.analysis.memory import PROCESS
from ditto.cli.exit_codes import ExitCode
from tests.cli.test_cli import ditto
from tests.documents import check_document
from tests.folders import TEXTS, bert_folder, gpt2_folder, llama_folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_run(tmp_path: Path, texts: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    out = tmp_path / "answers.json"
    long = "the [/red] cat [sat]" + 20 * " the cat"
    done = ditto(
        "run", str(model), "--text", TEXTS[0], "--text", long,
        "--calibration", str(texts), "--length", "16", "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = ("private answer", "[/red] cat [sat]", "encoder.layer.1", "kB of keys")
    for word in words:
        assert word in done.stdout
    document = json.loads(out.read_text())
    check_document("run", document)
    assert (document["model"], document["profile"]) == ("bert", "ditto")
    assert document["bytes"] == sum(run["bytes"] for run in document["runs"]) > 0
    assert len({run["plan"] for run in document["runs"]}) == 1
    answers = document["answers"]
    assert [a["bucket"] for a in answers] == [16, 16]
    assert [a["in_range"] for a in answers] == [True, True]
    assert "cut: text 2 is too long: 16 of its" in done.stdout
    assert long not in done.stdout
    assert [a["text"] for a in answers] == [TEXTS[0], long]
    assert all(a["probabilities"][a["label"]] >= 0.5 for a in answers)
    label, score = next(iter(answers[0]["probabilities"].items()))
    assert f"{label} {score:.1%}" in done.stdout
    refused = ditto("run", str(model), "--text", long, "--length", "16",
                    "--too-long", "refuse")  # fmt: skip
    assert refused.returncode == ExitCode.SETUP
    assert "more than the 16 that are taken" in refused.stderr
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


def test_generate_answers_what_a_user_says(tmp_path: Path, texts: Path) -> None:
    model = llama_folder(tmp_path / "llama", layers=1)
    out = tmp_path / "out.json"
    done = ditto(
        "generate", str(model), "--chat", "--prompt", "the old cat", "--tokens", "2",
        "--calibration", str(texts), "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the old cat\n")
    check_document("generate", json.loads(out.read_text()))
    assert "The float model says the same 2 tokens." in done.stdout
    plain = ditto("generate", str(gpt2_folder(tmp_path / "g")), "--chat",
                  "--prompt", "x")  # fmt: skip
    assert plain.returncode == ExitCode.SETUP
    assert "has no chat template: the model continues texts" in plain.stderr


def test_private_texts_and_answers_go_through_pipes(
    tmp_path: Path, texts: Path
) -> None:
    model = bert_folder(tmp_path / "bert")
    options = ("--calibration", str(texts), "--length", "16", "--json", "-")
    done = ditto("run", str(model), *options, "--no-float", given=TEXTS[0])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [a["text"] for a in document["answers"]] == [TEXTS[0]]
    assert document["answers"][0]["difference"] is None  # nothing was compared


def test_eval_and_verify(tmp_path: Path, texts: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    data = tmp_path / "dev.tsv"
    data.write_text(f"sentence\tlabel\n{TEXTS[0]}\t1\n{TEXTS[1]}\t0\n")
    done = ditto(
        "eval", str(model), "--task", "cola", "--data", str(data), "--length", "16",
        "--mode", "simulate", "--calibration", str(texts),
        "--json", str(tmp_path / "e.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_document("eval", json.loads((tmp_path / "e.json").read_text()))
    assert "matthews" in done.stdout
    assert "bits at the tightest place" in done.stdout
    done = ditto(
        "verify", str(model), "--calibration", str(texts), "--length", "16",
        "--limit", "12", "--layers", "2", "--plot", str(tmp_path / "verified.svg"),
        "--ranges", str(tmp_path / "ranges.json"), "--json", str(tmp_path / "v.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "certain" in done.stdout
    verdict = json.loads((tmp_path / "v.json").read_text())
    check_document("verify", verdict)
    assert (verdict["verdict"], verdict["simulated_texts"]) == ("safe", 12)
    assert verdict["left_a_range"] == 0
    assert verdict["parts"][0]["part"] == "embeddings"
    ranges = json.loads((tmp_path / "ranges.json").read_text())
    assert {r["held"] for r in ranges} <= {"proven", "caught", "sampled"}
    assert any(r["scope"].startswith("encoder.layer.1") for r in ranges)
    assert "0 of 12 texts left a range in the simulator" in done.stdout
    assert "safe" in done.stdout
    assert (tmp_path / "verified.svg").read_text().startswith("<?xml")


def test_bench(tmp_path: Path, texts: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    out = tmp_path / "cost.json"
    done = ditto(
        "bench", str(model), "--length", "16", "--batch", "2", "--repeat", "2",
        "--calibration", str(texts), "--json", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for word in ("bert, profile ditto", "16 tokens x 2", "client MB"):
        assert word in done.stdout
    document = json.loads(out.read_text())
    check_document("bench model", document)
    (row,) = document["rows"]
    assert (row["seq"], row["batch"], len(row["runs"])) == (16, 2, 2)
    assert sum(part["bytes"] for part in row["parts"]) == row["bytes"] > 0
    assert row["upload_bytes"] > 0
    assert row["mean_abs_error"] < 0.02
    assert len(read_results(out).rows) == 1  # benchmarks.report reads it too
    # a model so small weighs nothing beside the process
    assert 0.7 < row["peak_rss_mb"] / (PROCESS / 1e6) < 1.3


def test_bench_of_a_decoder(tmp_path: Path, texts: Path) -> None:
    model = gpt2_folder(tmp_path / "gpt2")
    done = ditto(
        "bench", str(model), "--length", "8", "--repeat", "1", "--profile", "puma",
        "--calibration", str(texts), "--json", str(tmp_path / "cost.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_document("bench model", json.loads((tmp_path / "cost.json").read_text()))
    for word in ("gpt2, profile puma", "first token after 8", "each further token"):
        assert word in done.stdout


def test_a_model_outside_the_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    done = ditto("run", str(tmp_path), "--text", "the")
    assert done.returncode == ExitCode.SETUP
    assert "'mamba' are not supported" in done.stderr
    assert "Traceback" not in done.stderr
