"""Transformers in plain JAX, from Hugging Face folders.

In topological order: tensors, json_file, sentence, head, tokenizer_layout, families,
formats, checkpoint, conversion, hub, tokenizer_files, chat_files, chat_template,
layers, parameters, pooling, family, bert, modernbert, gpt2, model, computation, random,
initial.
"""

from typing import TYPE_CHECKING

from ditto.models.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from ditto.models.head import Head

if TYPE_CHECKING:
    from ditto.models.model import Model, from_checkpoint, load_model
    from ditto.models.random import (
        PRESETS,
        PROBE_SHAPES,
        preset_layers,
        random_model,
    )

__all__ = [
    "PRESETS",
    "PROBE_SHAPES",
    "Checkpoint",
    "Head",
    "Model",
    "from_checkpoint",
    "load_model",
    "preset_layers",
    "random_model",
    "read_checkpoint",
    "write_checkpoint",
]


def __getattr__(name: str) -> object:
    """Load the models, and JAX with them, when first used: a client needs neither."""
    if name in ("PRESETS", "PROBE_SHAPES", "preset_layers", "random_model"):
        from ditto.models import random

        return getattr(random, name)
    if name in ("Model", "from_checkpoint", "load_model"):
        from ditto.models import model

        return getattr(model, name)
    raise AttributeError(f"module 'ditto.models' has no attribute {name!r}")
