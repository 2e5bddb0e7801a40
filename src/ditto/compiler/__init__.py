"""From a JAX function to a typed plan that three parties execute.

In topological order: operations, graph, trace, profile, calibrate, passes (simplify,
recognise, mask, normalise, fit, approximate, rings, types, paper, emit), plan, verify,
pipeline, artifact; execute, local, simulate, cost, explain, estimate, draw.
"""

from ditto.compiler.local import Run, run_local
from ditto.compiler.pipeline import compile  # noqa: A004
from ditto.compiler.plan import Plan
from ditto.compiler.profile import PROFILES, Profile, find_profile

__all__ = ["PROFILES", "Plan", "Profile", "Run", "compile", "find_profile", "run_local"]
