"""Rotary positions: queries and keys are turned by angles that everybody knows.

Source: Su et al. 2021. Angles depend on places alone, so cosines and sines are public
tables, made with numpy while a model is traced. All parties read the same numbers in
the plan; none of them computes a cosine.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ditto.errors import CheckpointError
from ditto.files import JsonValue

Table = npt.NDArray[np.float32] | jax.Array
Rotations = tuple[Table, Table]
"""Cosines and sines."""


@dataclass(frozen=True)
class Rope:
    """How fast channels turn, from a ``config.json``."""

    theta: float
    factor: float = 1.0
    """How many times slower those turn that are slowed down."""
    stretched: tuple[float, float] | None = None
    """Turns in the text lengths that the model was first trained with: channels with
    fewer than the first are slowed down, those with more than the second are not; None
    slows down all."""
    first_trained: int = 0
    """Those lengths."""

    @classmethod
    def from_hf(cls, config: Mapping[str, JsonValue], family: str) -> "Rope":
        """From ``rope_parameters``, or ``rope_theta`` and ``rope_scaling`` of before.

        Refuses what is not ``default``, ``linear`` or ``llama3``.
        """
        told = config.get("rope_parameters") or config.get("rope_scaling") or {}
        theta = float(told.get("rope_theta") or config.get("rope_theta") or 10_000.0)
        kind = told.get("rope_type") or told.get("type") or "default"
        if told.get("partial_rotary_factor", 1.0) != 1.0:
            raise CheckpointError(
                f"{family} with partial_rotary_factor="
                f"{told['partial_rotary_factor']} is not supported."
            )
        match kind:
            case "default":
                return cls(theta)
            case "linear":
                return cls(theta, float(told["factor"]))
            case "llama3":
                ends = told["low_freq_factor"], told["high_freq_factor"]
                first = told["original_max_position_embeddings"]
                return cls(theta, float(told["factor"]), ends, first)
        raise CheckpointError(
            f"{family} with rope_type={kind!r} is not supported; these are: default, "
            "linear, llama3."
        )

    def frequencies(self, width: int) -> npt.NDArray[np.float32]:
        """Radians a place, of each pair of a head's channels."""
        steps = np.arange(0, width, 2, dtype=np.float32) / width
        plain = (1.0 / self.theta**steps).astype(np.float32)
        if self.stretched is None:
            return (plain / self.factor).astype(np.float32)
        low, high = self.stretched
        turns = self.first_trained * plain / (2 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        slowed = plain * (kept + (1 - kept) / self.factor)
        return np.asarray(slowed, np.float32)


def rotations(rope: Rope, width: int, length: int) -> Rotations:
    """Cosines and sines of the angle of each place and channel, (S, D)."""
    angles = np.outer(np.arange(length, dtype=np.float32), rope.frequencies(width))
    angles = np.concatenate([angles, angles], -1)
    return np.cos(angles), np.sin(angles)


def rotate(x: jax.Array, turns: Rotations) -> jax.Array:
    """Heads (B, heads, S, D), each channel turned with the one half a width away."""
    cosines, sines = turns
    one, other = jnp.split(x, 2, -1)
    return jnp.asarray(x * cosines + jnp.concatenate([-other, one], -1) * sines)
