"""A plan on plain integers, on one machine: answers, headroom, error bounds, gradients.

In topological order: headroom, rounding, machine, simulator, function, bounds.
"""

from ditto.simulation.bounds import error_bounds
from ditto.simulation.function import as_function
from ditto.simulation.headroom import Headroom, Simulated
from ditto.simulation.rounding import AsProtocol, Nearest, Rounding, StraightThrough
from ditto.simulation.simulator import Simulator, simulate

__all__ = [
    "AsProtocol",
    "Headroom",
    "Nearest",
    "Rounding",
    "Simulated",
    "Simulator",
    "StraightThrough",
    "as_function",
    "error_bounds",
    "simulate",
]
