"""What a run says of itself while it trains, and when it is done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ditto.plan import Tree

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Progress:
    """Where a run is."""

    step: int
    total_steps: int
    epoch: float
    loss: float
    """The mean since the last line of the log."""
    learning_rate: float
    seconds_per_step: float
    """Of late, compiling left out."""
    is_logged: bool = False
    """Whether these figures stand in the log."""
    scores: Scores = field(default_factory=dict)
    """Of an evaluation after this step, if there was one."""
    is_best: bool = False
    """Whether no evaluation was better."""


OnProgress = Callable[[Progress], None]
OnEvaluation = Callable[[int, int], None]
"""Called with batches that are evaluated, and how many there are."""


@dataclass(frozen=True)
class Trained:
    """What a run has come to."""

    params: Tree
    """The best, by the metric; without one the last."""
    step: int
    total_steps: int
    scores: Scores
    """Of these parameters."""
    best_step: int | None
    loss: float
    """The last mean of the log."""
    seconds: float
    """Of training, all resumed parts together; evaluation left out."""
    seconds_per_step: float
    was_interrupted: bool = False
    stopped_early: bool = False
