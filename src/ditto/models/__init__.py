"""Transformers in plain JAX, from Hugging Face folders.

In topological order: checkpoint, layers, parameters, bert, gpt2, registry, random.
"""

from ditto.models.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from ditto.models.random import random_bert, random_gpt2, random_model
from ditto.models.registry import Model, from_checkpoint, load_model

__all__ = [
    "Checkpoint",
    "Model",
    "from_checkpoint",
    "load_model",
    "random_bert",
    "random_gpt2",
    "random_model",
    "read_checkpoint",
    "write_checkpoint",
]
