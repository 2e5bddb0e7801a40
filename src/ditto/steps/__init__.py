"""One file for each kind of step, with all that is known of it, and one table.

A kind's fields are its parameters; its methods tell what is legal, what it costs, how a
party executes it, how it is simulated, how far the two may differ, how it is described.

In topological order: base, rules, alignment, conversion, grid, region_errors,
region_values; a file for each kind; table, check, files, coverage.
"""

from ditto.steps.base import (
    Arithmetic,
    Batchable,
    Cells,
    Held,
    Numbers,
    Place,
    Runner,
    Site,
    StepCost,
    StepDefinition,
    definition,
)
from ditto.steps.check import check_plan
from ditto.steps.coarse_max import CoarseMax
from ditto.steps.constant import Constant
from ditto.steps.downcast import Downcast
from ditto.steps.exponential import Exponential
from ditto.steps.files import load_plan, plan_from_body, plan_from_bytes
from ditto.steps.linear_map import LinearMap
from ditto.steps.lookup import Lookup
from ditto.steps.mul_public import EinsumPublic, MulPublic
from ditto.steps.piecewise_quadratic import PiecewiseQuadratic
from ditto.steps.product import Einsum, Multiply
from ditto.steps.public import PublicOperation
from ditto.steps.recast import Recast
from ditto.steps.region import RunRegion
from ditto.steps.rescale import Rescale
from ditto.steps.rules import check_graph
from ditto.steps.select import Select
from ditto.steps.share_public import SharePublic
from ditto.steps.sums import Add, Neg, Sub
from ditto.steps.table import STEPS
from ditto.steps.table_function import TableFunction

__all__ = [
    "STEPS",
    "Add",
    "Arithmetic",
    "Batchable",
    "Cells",
    "CoarseMax",
    "Constant",
    "Downcast",
    "Einsum",
    "EinsumPublic",
    "Exponential",
    "Held",
    "LinearMap",
    "Lookup",
    "MulPublic",
    "Multiply",
    "Neg",
    "Numbers",
    "PiecewiseQuadratic",
    "Place",
    "PublicOperation",
    "Recast",
    "Rescale",
    "RunRegion",
    "Runner",
    "Select",
    "SharePublic",
    "Site",
    "StepCost",
    "StepDefinition",
    "Sub",
    "TableFunction",
    "check_graph",
    "check_plan",
    "definition",
    "load_plan",
    "plan_from_body",
    "plan_from_bytes",
]
