"""How well a model answers, and whether it is safe to serve.

In topological order: columns, tasks, metrics, ordinary, classification, evaluate,
comparison, verification, plot.
"""

from ditto.evaluation.comparison import Comparison, Row, compare_modes, evenly_spaced
from ditto.evaluation.evaluate import LIKENESS, Evaluation, Setting, evaluate
from ditto.evaluation.metrics import METRICS, accuracy, cosine, f1, matthews, score
from ditto.evaluation.ordinary import OrdinaryText, ordinary_texts, some_texts
from ditto.evaluation.tasks import (
    TASKS,
    Example,
    Task,
    read_examples,
    read_lines,
    read_texts,
)
from ditto.evaluation.verification import Part, Verification, verify

__all__ = [
    "LIKENESS",
    "METRICS",
    "TASKS",
    "Comparison",
    "Evaluation",
    "Example",
    "OrdinaryText",
    "Part",
    "Row",
    "Setting",
    "Task",
    "Verification",
    "accuracy",
    "compare_modes",
    "cosine",
    "evaluate",
    "evenly_spaced",
    "f1",
    "matthews",
    "ordinary_texts",
    "read_examples",
    "read_lines",
    "read_texts",
    "score",
    "some_texts",
    "verify",
]
