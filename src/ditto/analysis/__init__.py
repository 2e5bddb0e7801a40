"""What is to be known of a plan before it runs: cost, time on a network, a table, a
picture. Functions of a plan.

In topological order: spu_cost, cost, explanation, memory, machine, audits,
estimation, drawing.
"""

from ditto.analysis.audits import Proofs, proofs_of
from ditto.analysis.cost import Predicted, predict
from ditto.analysis.drawing import draw
from ditto.analysis.estimation import (
    LAN,
    WAN,
    Estimate,
    Network,
    Work,
    estimate,
    tune_rounds,
    work_of,
)
from ditto.analysis.explanation import by_part, by_scope, describe, explain, summary
from ditto.analysis.machine import USUAL, Machine
from ditto.analysis.memory import Memory, party_memory

__all__ = [
    "LAN",
    "USUAL",
    "WAN",
    "Estimate",
    "Machine",
    "Memory",
    "Network",
    "Predicted",
    "Proofs",
    "Work",
    "by_part",
    "by_scope",
    "describe",
    "draw",
    "estimate",
    "explain",
    "party_memory",
    "predict",
    "proofs_of",
    "summary",
    "tune_rounds",
    "work_of",
]
