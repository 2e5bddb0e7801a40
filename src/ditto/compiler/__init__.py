"""From a JAX function to a typed plan that three parties execute.

In topological order: operations, graph, trace, profile, calibrate; passes (simplify,
recognise, mask, normalise, fit, approximate, rings, types, paper, region, emit); plan,
verify, pipeline, artifact; execute, local; simulator, bounds; spu_cost, cost, explain,
estimate, draw.
"""

from ditto.compiler.estimate import LAN, WAN, Estimate, Network
from ditto.compiler.local import Run, StepCost, run_local
from ditto.compiler.pipeline import compile  # noqa: A004
from ditto.compiler.plan import Plan
from ditto.compiler.profile import PROFILES, Profile, find_profile
from ditto.compiler.simulator import Headroom, Simulated, Simulator, simulate

__all__ = [
    "LAN",
    "PROFILES",
    "WAN",
    "Estimate",
    "Headroom",
    "Network",
    "Plan",
    "Profile",
    "Run",
    "Simulated",
    "Simulator",
    "StepCost",
    "compile",
    "find_profile",
    "run_local",
    "simulate",
]
