"""The one table of all protocols: what they compute, what they cost, how they err.

Each row can be run, priced and checked without knowing the protocol: the conformance
suite holds every row to it, and the bench prints it. No computation needs the table:
only tests and benchmarks import it.

In topological order: forms, row; ends, casts, products, functions.
"""

from ditto.protocols.registry.casts import paper_rows, recast_rows
from ditto.protocols.registry.ends import bit_rows, end_rows, linear_rows
from ditto.protocols.registry.forms import (
    Form,
    Owned,
    deal_operands,
    gather,
    give_back,
    take_operands,
)
from ditto.protocols.registry.functions import (
    coarse_max_rows,
    exponential_rows,
    piecewise_quadratic_rows,
    table_function_rows,
)
from ditto.protocols.registry.products import lookup_rows, product_rows
from ditto.protocols.registry.row import Error, Protocol, Variant

PROTOCOLS: tuple[Protocol, ...] = (
    *end_rows(),
    *bit_rows(),
    *linear_rows(),
    *recast_rows(),
    *paper_rows(),
    *coarse_max_rows(),
    *exponential_rows(),
    *piecewise_quadratic_rows(),
    *table_function_rows(),
    *lookup_rows(),
    *product_rows(),
)
"""All protocols."""
ROWS: dict[str, Protocol] = {row.key: row for row in PROTOCOLS}
"""The same, by their keys: how three parties are told to run one."""

__all__ = [
    "PROTOCOLS",
    "ROWS",
    "Error",
    "Form",
    "Owned",
    "Protocol",
    "Variant",
    "deal_operands",
    "gather",
    "give_back",
    "take_operands",
]
