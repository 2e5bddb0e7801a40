"""Transformers in plain JAX, from Hugging Face folders.

In topological order: checkpoint, layers, parameters, bert, gpt2, registry.
"""

from ditto.models.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from ditto.models.registry import Model, from_checkpoint, load_model

__all__ = [
    "Checkpoint",
    "Model",
    "from_checkpoint",
    "load_model",
    "read_checkpoint",
    "write_checkpoint",
]
