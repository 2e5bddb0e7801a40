"""The tensors of a checkpoint, by name."""

from ditto.fixedpoint import Array

Tensors = dict[str, Array]
