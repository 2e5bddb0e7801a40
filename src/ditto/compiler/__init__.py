"""From a JAX function to a plan that three parties execute.

In topological order: builder, trace, profile, calibrate; passes (simplify, recognise,
mask, coarsen, normalise, shapes, pieces, tabulate, approximate, lookup, rings, types,
paper; draft, region, subscripts, order, emit); bounds; pipeline.
"""

from ditto.compiler.bounds import RangeReport
from ditto.compiler.pipeline import compile  # noqa: A004
from ditto.compiler.profile import PROFILES, Profile, find_profile

__all__ = ["PROFILES", "Profile", "RangeReport", "compile", "find_profile"]
