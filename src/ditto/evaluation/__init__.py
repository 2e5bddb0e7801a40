"""How well a model answers, and whether it is safe to serve.

In topological order: tasks, metrics, evaluate, verification, plot.
"""

from ditto.evaluation.evaluate import LIKENESS, Evaluation, Setting, evaluate
from ditto.evaluation.metrics import METRICS, accuracy, cosine, f1, matthews, score
from ditto.evaluation.tasks import (
    TASKS,
    Example,
    Task,
    read_examples,
    read_lines,
)
from ditto.evaluation.verification import Part, Verification, verify

__all__ = [
    "LIKENESS",
    "METRICS",
    "TASKS",
    "Evaluation",
    "Example",
    "Part",
    "Setting",
    "Task",
    "Verification",
    "accuracy",
    "cosine",
    "evaluate",
    "f1",
    "matthews",
    "read_examples",
    "read_lines",
    "score",
    "verify",
]
