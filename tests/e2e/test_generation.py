"""A GPT-2 that learnt real text: private greedy tokens are the float model's.

The model is small and trained here, on the language reference that ships with Python.
docs/results has the larger one: 20 prompts, 20 tokens, three processes.
"""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ditto.api import Pretrained, from_pretrained
from ditto.errors import AnswerWarning
from ditto.runtime import ThreadTrio

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt2.py"
PROMPTS = [
    "The value of the expression is",
    "If the object is a class, then",
    "The following example shows how to",
    "A function definition defines a",
]
TIE = 0.05
"""Logits this close may fall either way: ten times their usual error."""


@pytest.fixture(scope="module")
def folder(folder_of_this_run: Path) -> Path:
    """Trained by one process for all that run tests beside it."""
    out = folder_of_this_run / "trained"
    with (folder_of_this_run / "training").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "config.json").exists():
            train(out)
    return out


def train(out: Path) -> None:
    options = {"layers": 2, "width": 128, "heads": 4, "vocabulary": 2048, "steps": 400}
    given = [part for name, n in options.items() for part in (f"--{name}", str(n))]
    subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(out), *given],
        check=True,
        capture_output=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=300) as parties:
        yield parties


def lead(model: Pretrained, prompt: str, ids: list[int]) -> float:
    """How far the float model's best next token is ahead of the second."""
    known = [*model.tokenizer.encode(prompt).ids, *ids]
    mask = np.ones((1, len(known)), np.int32)
    logits = model.model.apply(model.model.params, np.array([known]), mask)[0, -1]
    second, best = np.sort(np.asarray(logits))[-2:]
    return float(best - second)


def test_twenty_tokens_are_those_of_the_float_model(
    folder: Path, trio: ThreadTrio
) -> None:
    """All of them, but where the float model itself hardly prefers its choice."""
    same = 0
    with from_pretrained(folder, trio=trio) as model:
        plain = model.with_mode("float")
        for prompt in PROMPTS:
            got = [t.ids[0] for t in model.stream(prompt, 20)]
            due = [t.ids[0] for t in plain.stream(prompt, 20)]
            assert len(set(due)) > 3  # it says something
            pairs = enumerate(zip(got, due, strict=True))
            parting = next((k for k, (a, b) in pairs if a != b), None)
            if parting is None:
                same += 1
            else:
                assert lead(plain, prompt, due[:parting]) < TIE, prompt
    assert same >= len(PROMPTS) - 1


@pytest.mark.parametrize("profile", ["spu", "puma", "paper", "ditto"])
def test_the_same_prompt_twice_in_every_profile(
    folder: Path, trio: ThreadTrio, profile: str
) -> None:
    """The same tokens, unless two logits are closer than the profile's error.

    The paper's profile replaces GeLU by a square, which this model was not trained for:
    its tokens must be doubted, and no others.
    """
    with from_pretrained(folder, profile=profile, trio=trio) as model:
        if profile == "paper":
            with pytest.warns(AnswerWarning, match="off the float model's answer"):
                first, second = (list(model.stream(PROMPTS[0], 4)) for _ in range(2))
        else:
            first, second = (list(model.stream(PROMPTS[0], 4)) for _ in range(2))
    assert [token.ids for token in first] == [token.ids for token in second]
    doubted = [bool(token.doubts[0]) for token in first + second]
    assert doubted == [profile == "paper"] * 8
