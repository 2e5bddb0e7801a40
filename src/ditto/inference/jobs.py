"""What parties are asked to compute: a function of the model, for one shape."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp

from ditto.models import Model, gpt2

Kind = Literal["answer", "trace", "begin", "go on"]


@dataclass(frozen=True)
class Job:
    """One computation. Its inputs, after the parameters, are

    answer, trace   ids (B, S), mask (B, S), and with ``pairs`` types (B, S)
    begin           ids (B, S), lengths (B)
    go on           ids (B), positions (B), then the state: a cache of S positions

    ``trace`` answers with the states after every layer too, for who may see them.
    ``inside`` chooses the next token among the parties: the client learns it alone.
    """

    kind: Kind
    batch: int
    length: int
    pairs: bool = False
    inside: bool = False
    hides_length: bool = False

    @property
    def public(self) -> tuple[int, ...]:
        """The arguments everybody knows: mask, lengths or positions."""
        return () if self.hides_length else (2,)

    @property
    def state(self) -> tuple[int, ...]:
        """The argument that the parties have kept."""
        return (3,) if self.kind == "go on" else ()

    @property
    def keep(self) -> tuple[int, ...]:
        """The result that the parties will keep."""
        return (1,) if self.kind in ("begin", "go on") else ()


def function_of(model: Model, job: Job) -> Callable[..., Any]:
    """The function of a job, of the model's parameters and the job's inputs."""
    match job.kind:
        case "answer":
            return model.apply
        case "trace":
            return model.trace
        case "begin":
            return _chosen(partial(gpt2.begin, model.config), job.inside)
        case "go on":
            return _chosen(partial(gpt2.go_on, model.config), job.inside)


def _chosen(step: Callable[..., Any], inside: bool) -> Callable[..., Any]:
    if not inside:
        return step

    def choose(*arguments: Any) -> Any:
        logits, cache = step(*arguments)
        return jnp.argmax(logits, -1).astype(jnp.int32), cache

    return choose
