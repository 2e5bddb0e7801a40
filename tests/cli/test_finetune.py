"""``ditto finetune`` as a person runs it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ditto.training.settings import FinetuneSettings
from tests.documents import check_document
from tests.folders import bert_folder

DITTO = [sys.executable, "-c", "from ditto.cli import main; main()", "finetune"]
STEPS = 12


def command(*arguments: object) -> list[str]:
    return [*DITTO, *(str(each) for each in arguments)]


def ditto(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


def prepared(folder: Path, steps: int = STEPS) -> Path:
    """An encoder, a file to learn from, and settings that name them."""
    bert_folder(folder / "bert", layers=1)
    rows = [f"the {('old cat', 'red dog')[k % 2]} sat\t{k % 2}" for k in range(16)]
    (folder / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    lines = [
        f"model_name_or_path: {folder / 'bert'}",
        f"output_dir: {folder / 'out'}",
        f"train_file: {folder / 'train.tsv'}",
        f"validation_file: {folder / 'train.tsv'}",
        "per_device_train_batch_size: 4",
        "per_device_eval_batch_size: 4",
        f"max_steps: {steps}",
        "logging_steps: 4",
        "eval_steps: 6",
        "seed: 1",
    ]
    (folder / "run.yaml").write_text("\n".join(lines) + "\n")
    return folder / "run.yaml"


def test_help_names_every_setting() -> None:
    done = ditto("--help")
    assert done.returncode == 0
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    for name in FinetuneSettings.model_fields:
        assert f"--{name} " in done.stdout
    for group in ("Model", "Data", "Training", "Evaluation", "Checkpoints and log"):
        assert f"─ {group} ─" in done.stdout


def test_flags_win_over_the_file_and_a_pipe_gets_lines(tmp_path: Path) -> None:
    file, result = prepared(tmp_path), tmp_path / "result.json"
    done = ditto(file, "--learning-rate", "0.01", "--seed=2", "--json", result)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert max(len(line) for line in lines) <= 80
    steps = [line.split()[1] for line in lines if line.startswith("step ")]
    assert steps == [f"{k}/{STEPS}" for k in (4, 8, 12)]
    assert sum(line.startswith("eval ") for line in lines) == 2
    assert f"{STEPS} of {STEPS}" in done.stdout
    told = json.loads(result.read_text())
    check_document("finetune", told)
    assert (told["total_steps"], told["interrupted"]) == (STEPS, False)
    state = json.loads(
        (tmp_path / f"out/checkpoint-{STEPS}/trainer_state.json").read_text()
    )
    assert (state["run"]["seed"], state["run"]["learning_rate"]) == (2, 0.01)
    again = ditto(file)
    assert again.returncode == 4
    assert "--resume_from_checkpoint true" in again.stderr


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--learning_rate", "fast"], "--learning_rate: Input should be a valid"),
        (["--learnin_rate", "1"], "--learning_rate"),
        (["none.yaml"], "none.yaml cannot be read"),
        ([], "output_dir is missing"),
    ],
)
def test_mistakes_end_in_a_sentence(flags: list[str], expected: str) -> None:
    needed = ["--output_dir", "o", "--train_file", "t", "--model_name_or_path", "m"]
    done = ditto(*flags, *(needed if "--learning_rate" in flags else ()))
    assert done.returncode in (2, 4)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    file = prepared(tmp_path, steps=1_000_000)
    process = subprocess.Popen(
        command(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step "):
            break
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"finetune {file} --resume_from_checkpoint true" in said
    (saved,) = {path.name for path in (tmp_path / "out").glob("checkpoint-*")} - {
        "checkpoint-6"
    }
    assert int(saved.removeprefix("checkpoint-")) >= 4
    assert not (tmp_path / "out" / "config.json").exists()
