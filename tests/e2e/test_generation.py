"""A GPT-2 that learnt real text: private greedy tokens are the float model's.

The model is small and trained here, on the language reference that ships with Python.
docs/results has the larger one: 20 prompts, 20 tokens, three processes.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ditto.engine import ThreadTrio
from ditto.inference import from_pretrained

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt2.py"
PROMPTS = [
    "The value of the expression is",
    "If the object is a class, then",
    "The following example shows how to",
    "A function definition defines a",
]
STATED = 0.9
"""The error of a logit in profile ``paper``: fracs of 8 bits, and Quad for GeLU."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    options = {"layers": 2, "width": 128, "heads": 4, "vocabulary": 2048, "steps": 400}
    given = [part for name, n in options.items() for part in (f"--{name}", str(n))]
    subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(out), *given],
        check=True,
        capture_output=True,
        timeout=600,
    )
    return out


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=300) as parties:
        yield parties


def test_twenty_tokens_are_those_of_the_float_model(
    folder: Path, trio: ThreadTrio
) -> None:
    with from_pretrained(folder, trio=trio) as model:
        plain = model.also("float")
        for prompt in PROMPTS:
            got = [t.ids[0] for t in model.generate(prompt, 20)]
            due = [t.ids[0] for t in plain.generate(prompt, 20)]
            assert got == due, prompt
            assert len(set(due)) > 5  # it says something


@pytest.mark.parametrize("profile", ["spu", "puma", "paper", "ditto"])
def test_the_same_prompt_twice_in_every_profile(
    folder: Path, trio: ThreadTrio, profile: str
) -> None:
    """The same tokens, unless two logits are closer than the profile's error."""
    with from_pretrained(folder, profile=profile, trio=trio) as model:
        first = [t.ids[0] for t in model.generate(PROMPTS[0], 4)]
        second = [t.ids[0] for t in model.generate(PROMPTS[0], 4)]
    assert first == second
