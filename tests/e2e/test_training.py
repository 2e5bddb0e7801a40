"""The training example writes a model that learnt, and that others can read."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from ditto.models import load_model

pytest.importorskip("optax", reason="training needs the extra 'train'")
tokenizers = pytest.importorskip("tokenizers")

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt2.py"
SENTENCE = 'If the object is a class, "None" is returned; naïve code may not expect it.'
VOCABULARY = 384


def train(folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, "--out", folder, *options]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_trained_model_is_read_by_all(tmp_path: Path) -> None:
    size = ("--layers", 1, "--width", 64, "--heads", 2, "--vocabulary", VOCABULARY)
    done = train(tmp_path, *size, "--context", 64, "--batch", 4, "--steps", 150)
    assert done.returncode == 0, done.stderr

    # It learnt: at first it knows nothing, and all tokens are as likely.
    first = re.search(r"^step 1: .*perplexity about (\S+)$", done.stdout, re.M)
    last = re.search(r"^held-out perplexity (\S+)$", done.stdout, re.M)
    assert first is not None, done.stdout
    assert last is not None, done.stdout
    assert float(first.group(1)) > VOCABULARY / 2
    assert float(last.group(1)) < float(first.group(1)) / 3
    assert len(re.findall(" -> ", done.stdout)) == 2

    # Its tokens are the same for both readers, and give the text back.
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer.encode(SENTENCE).ids
    assert theirs(SENTENCE)["input_ids"] == ids
    assert theirs.decode(ids) == tokenizer.decode(ids) == SENTENCE
    assert theirs.eos_token_id == tokenizer.token_to_id("<|endoftext|>")

    # So are its logits.
    model = load_model(tmp_path)
    assert (model.family.model_type, model.head) == ("gpt2", "text-generation")
    assert model.config.vocab_size == VOCABULARY
    batch = np.array([ids], np.int32)
    ours = model.apply(model.params, batch, np.ones_like(batch))
    network = hf.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = network(torch.tensor([ids])).logits.numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-4, rtol=0)


def test_bad_requests_end_in_a_sentence(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("Too short to learn from.")
    done = train(tmp_path / "out", "--text", short)
    assert done.returncode == 2
    assert "too few" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
