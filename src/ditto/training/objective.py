"""What a run makes smaller, and what it is judged by."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from ditto.plan import Tree
from ditto.training.batches import TrainingBatch
from ditto.training.progress import OnEvaluation, Scores

Loss = Callable[[Tree, TrainingBatch, Tree], jax.Array]
"""Of parameters, a batch, and what stays as it is, such as a teacher's parameters: a
number to be made smaller."""
Evaluate = Callable[[Tree, OnEvaluation], Scores]
"""Of parameters: figures by name. It tells of every batch."""


@dataclass(frozen=True)
class Metric:
    """The figure that says which parameters are best."""

    name: str
    greater_is_better: bool

    def is_better(self, score: float, other: float | None) -> bool:
        """Whether a score is better than another; any is better than none."""
        if other is None:
            return True
        return score > other if self.greater_is_better else score < other


@dataclass(frozen=True)
class Objective:
    """A loss, and how its parameters are evaluated, if they are."""

    loss: Loss
    evaluate: Evaluate | None = None
    metric: Metric | None = None
