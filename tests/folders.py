"""Small Hugging Face folders with random weights and real tokenizers."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ditto.models import (
    Checkpoint,
    Model,
    random_bert,
    random_gpt2,
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
    model = random_bert(32, layers, 2, vocabulary=len(WORDS), seed=seed)
    config = {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "id2label": {"0": "bad", "1": "good"},
        "pad_token_id": 0,
    }
    write_model(path, model, config)
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
    model = random_gpt2(32, layers, 2, vocabulary=size, seed=2)
    model.params["embeddings"]["position"] = model.params["embeddings"]["position"][
        :positions
    ]
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": size,
        "n_embd": 32,
        "n_layer": layers,
        "n_head": 2,
        "n_positions": positions,
    }
    write_model(path, model, config)
    backend.save(str(path / "tokenizer.json"))
    return path


def write_model(path: Path, model: Model, config: dict[str, Any]) -> None:
    write_checkpoint(Checkpoint(config, model.tensors()), path)
    assert json.loads((path / "config.json").read_text())["model_type"]
