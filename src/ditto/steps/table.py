"""The one table of all kinds of steps."""

from collections.abc import Mapping
from types import MappingProxyType

from ditto.steps.base import StepDefinition
from ditto.steps.coarse_max import CoarseMax
from ditto.steps.constant import Constant
from ditto.steps.downcast import Downcast
from ditto.steps.exponential import Exponential
from ditto.steps.linear_map import LinearMap
from ditto.steps.lookup import Lookup
from ditto.steps.mul_public import EinsumPublic, MulPublic
from ditto.steps.piecewise_quadratic import PiecewiseQuadratic
from ditto.steps.product import Einsum, Multiply
from ditto.steps.public import PublicOperation
from ditto.steps.recast import Recast
from ditto.steps.region import RunRegion
from ditto.steps.rescale import Rescale
from ditto.steps.select import Select
from ditto.steps.share_public import SharePublic
from ditto.steps.sums import Add, Neg, Sub
from ditto.steps.table_function import TableFunction

STEPS: Mapping[str, type[StepDefinition]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Add,
            CoarseMax,
            Constant,
            Downcast,
            Einsum,
            EinsumPublic,
            LinearMap,
            Lookup,
            MulPublic,
            Multiply,
            Neg,
            Exponential,
            PiecewiseQuadratic,
            PublicOperation,
            Recast,
            Rescale,
            RunRegion,
            Select,
            SharePublic,
            Sub,
            TableFunction,
        )
    }
)
"""By the name that plans write."""
