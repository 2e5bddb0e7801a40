"""What is to be known of a plan before it runs: cost, time on a network, a table, a
picture. Functions of a plan.

In topological order: spu_cost, cost, explanation, estimation, memory,
drawing.
"""

from ditto.analysis.cost import Predicted, predict
from ditto.analysis.drawing import draw
from ditto.analysis.estimation import (
    LAN,
    WAN,
    Estimate,
    Network,
    estimate,
    tune_rounds,
)
from ditto.analysis.explanation import by_part, by_scope, describe, explain, summary
from ditto.analysis.memory import Memory, party_memory

__all__ = [
    "LAN",
    "WAN",
    "Estimate",
    "Memory",
    "Network",
    "Predicted",
    "by_part",
    "by_scope",
    "describe",
    "draw",
    "estimate",
    "explain",
    "party_memory",
    "predict",
    "summary",
    "tune_rounds",
]
