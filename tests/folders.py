"""Small Hugging Face folders with random weights and real tokenizers."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ditto.models import (
    Checkpoint,
    Model,
    random_model,
    write_checkpoint,
)

PIECES = """
[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on under mat tree red blue
old new house river and but not very small large ##s ##ed . , ?
"""
WORDS = PIECES.split()
TEXTS = [
    "the old cat sat on the mat .",
    "a dog ran under the red tree , but not very",
    "the river and the house ?",
    "small dogs sat .",
    "the very large blue house under the old tree and the new river .",
]


def bert_folder(path: Path, *, layers: int = 2, seed: int = 1) -> Path:
    """BERT for sequence classification with two labels."""
    model = random_model(
        "bert-tiny",
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=layers,
        vocab_size=len(WORDS),
        id2label={"0": "bad", "1": "good"},
        seed=seed,
    )
    write_model(path, model)
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return path


def gpt2_folder(path: Path, *, layers: int = 2, positions: int = 1024) -> Path:
    """GPT-2 as a language model over bytes."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    size = backend.get_vocab_size()
    model = random_model(
        "gpt2-tiny", hidden_size=32, num_hidden_layers=layers, vocab_size=size, seed=2
    )
    table = model.params["embeddings"]["position"][:positions]
    model.params["embeddings"]["position"] = table
    write_model(path, model.with_config(max_position_embeddings=positions))
    backend.save(str(path / "tokenizer.json"))
    return path


def write_model(path: Path, model: Model) -> None:
    write_checkpoint(Checkpoint(model.published, model.tensors()), path)
    assert json.loads((path / "config.json").read_text())["model_type"]
