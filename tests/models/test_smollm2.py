"""A real language model, if there is one: SmolLM2-135M-Instruct beside transformers.

``examples/convert_gguf.py`` makes its folder; DITTO_SMOLLM2 names it.
"""

import os

import jax
import numpy as np
import pytest
import torch
import transformers as hf

from ditto.client import Tokenizer
from ditto.models import load_model
from ditto.models.chat_files import read_chat_files
from ditto.models.chat_template import ChatTemplate

FOLDER = os.environ.get("DITTO_SMOLLM2", "")
PROMPTS = [
    "The capital of France is", "Water boils at", "def add(a, b):\n    return",
    "Once upon a time", "The quick brown fox", "1, 2, 3, 4,", "Der Himmel ist",
    "My name is", "In 1969, the", "The opposite of hot is", "import numpy as",
    "To be or not to", "The largest planet is", "Hello, how are", "She went to the",
    "A recipe for soup:", "The speed of light", "Roses are red,",
    "The president of the", "Machine learning is",
]  # fmt: skip
LENGTH = 16

pytestmark = pytest.mark.skipif(not FOLDER, reason="DITTO_SMOLLM2 names no folder")


def test_logits_are_those_of_transformers() -> None:
    """Of the next token after 20 prompts, to 1e-3; 5.9e-5 was measured."""
    network = hf.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    theirs = hf.AutoTokenizer.from_pretrained(FOLDER)
    ours, tokenizer = load_model(FOLDER), Tokenizer.load(FOLDER)
    apply = jax.jit(ours.apply)
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        assert ids == theirs(prompt)["input_ids"]
        padded = np.zeros((1, LENGTH), np.int32)
        padded[0, : len(ids)] = ids
        mask = (np.arange(LENGTH) < len(ids))[None]
        with torch.no_grad():
            expected = network(torch.tensor([ids])).logits[0, -1].numpy()
        got = np.asarray(apply(ours.params, padded, mask))[0, len(ids) - 1]
        assert np.abs(got - expected).max() <= 1e-3


def test_gated_channels_go_thousands_of_times_as_far_as_the_others() -> None:
    """As ``docs/explanation/compiler.md`` has it of layer 11."""
    ours, tokenizer = load_model(FOLDER), Tokenizer.load(FOLDER)
    assert ours.family.inner_states is not None
    ids = np.array([tokenizer.encode("Once upon a time").ids], np.int32)
    inner = ours.family.inner_states(ours.config, ours.params, ids, np.ones_like(ids))
    reached = np.abs(inner[1][11]).max((0, 1))
    assert reached.max() > 2500
    assert np.median(reached) < 0.8


def test_a_conversation_has_the_tokens_of_transformers() -> None:
    theirs, tokenizer = hf.AutoTokenizer.from_pretrained(FOLDER), Tokenizer.load(FOLDER)
    chat = read_chat_files(FOLDER)
    assert chat.template is not None
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = ChatTemplate(chat.template).render(messages, chat.special_tokens)
    expected = theirs.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    assert tokenizer.encode(prompt, add_special_tokens=False).ids == expected
