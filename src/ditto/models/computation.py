"""What parties are asked to compute: a function of the model, for one shape."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import jax.numpy as jnp

from ditto.models import Model
from ditto.plan import Tree

Reveal = Literal["logits", "token"]


class Phase(StrEnum):
    """Which function of the model is computed."""

    FORWARD = "forward"
    """Whole texts at once, with the model's head."""
    TRACE = "trace"
    """The same, with the states after every layer, for whoever may see them."""
    PREFILL = "prefill"
    """Prompts: what follows them, and their cache."""
    DECODE = "decode"
    """One more token of each text: what follows it, and the cache with it."""


@dataclass(frozen=True)
class Computation:
    """One computation. Its inputs, after the parameters, are

    forward, trace   ids (B, S), mask (B, S), and ``with_types`` types (B, S)
    prefill          ids (B, S), lengths (B)
    decode           ids (B), positions (B), then the state: a cache of S positions
    """

    phase: Phase
    batch_size: int
    length: int
    with_types: bool = False
    reveal: Reveal = "logits"
    """With "token" the parties choose the next token: the client learns it alone."""
    hide_length: bool = False
    wide: bool = False
    """With wide margins, for what leaves the usual ones: a little less precise."""

    def __str__(self) -> str:
        """As people read it."""
        words = [self.phase.value, f"{self.length} tokens"]
        if self.batch_size > 1:
            words.append(f"{self.batch_size} texts")
        traits = {
            "pairs": self.with_types,
            "token chosen": self.reveal == "token",
            "hidden length": self.hide_length,
            "wide margins": self.wide,
        }
        return ", ".join([*words, *(name for name, holds in traits.items() if holds)])

    @property
    def public_argnums(self) -> tuple[int, ...]:
        """The arguments everybody knows: mask, lengths or positions."""
        return () if self.hide_length else (2,)

    @property
    def state_argnums(self) -> tuple[int, ...]:
        """The argument that the parties have retained."""
        return (3,) if self.phase is Phase.DECODE else ()

    @property
    def retain_outputs(self) -> tuple[int, ...]:
        """The result that the parties retain."""
        return (1,) if self.phase in (Phase.PREFILL, Phase.DECODE) else ()


def function_of(model: Model, computation: Computation) -> Callable[..., Tree]:
    """The function to compute, of the model's parameters and the inputs."""
    match computation.phase:
        case Phase.FORWARD:
            return model.apply
        case Phase.TRACE:
            return model.trace
        case Phase.PREFILL:
            return _revealing(model.prefill, computation.reveal)
        case Phase.DECODE:
            return _revealing(model.decode, computation.reveal)


def _revealing(step: Callable[..., Tree], reveal: Reveal) -> Callable[..., Tree]:
    if reveal == "logits":
        return step

    def choose(*arguments: Tree) -> Tree:
        logits, cache = step(*arguments)
        return jnp.argmax(logits, -1).astype(jnp.int32), cache

    return choose
