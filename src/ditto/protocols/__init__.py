"""Protocols on replicated shares, and the channel they talk over.

In topological order: channel, memory, ledger, party, cost, session; blocks; linear,
share, reveal, range_word, reshare, boolean, recast, recast_in_place, coarse_max,
grid_function, exponential, piecewise_quadratic, kernels, multiply, lookup, parabolas,
table_function, paper; registry, which only tests and benchmarks import.
"""

from ditto.protocols.blocks import Grid, Rounds
from ditto.protocols.boolean import and_bits, and_bits_cost
from ditto.protocols.channel import Channel, Traffic
from ditto.protocols.coarse_max import coarse_max, coarse_max_cost
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.exponential import (
    Exponential,
)
from ditto.protocols.grid_function import GridFunction, compute_on_grid
from ditto.protocols.linear import (
    add,
    add_public,
    invert_bits,
    lift,
    negate,
    subtract,
    sum_over,
)
from ditto.protocols.lookup import lookup
from ditto.protocols.memory import memory_channels
from ditto.protocols.multiply import (
    einsum,
    matmul,
    multiply,
    product_cost,
    product_type,
    square,
    sum_of_squares,
)
from ditto.protocols.paper import downcast_paper, upcast_paper
from ditto.protocols.parabolas import TableFunction
from ditto.protocols.party import Party
from ditto.protocols.piecewise_quadratic import Pieces, PiecewiseQuadratic
from ditto.protocols.range_word import range_word_cost, reveal_range_word
from ditto.protocols.recast import recast, recast_cost
from ditto.protocols.recast_in_place import recast_in_place, recast_in_place_cost
from ditto.protocols.reveal import (
    reveal,
    reveal_cost,
    reveal_to_client,
    reveal_to_client_cost,
)
from ditto.protocols.session import agree
from ditto.protocols.share import share, share_cost
from ditto.protocols.table_function import table_function, table_function_cost

__all__ = [
    "FREE",
    "Channel",
    "Cost",
    "Exponential",
    "Grid",
    "GridFunction",
    "Party",
    "Pieces",
    "PiecewiseQuadratic",
    "Rounds",
    "TableFunction",
    "Traffic",
    "add",
    "add_public",
    "agree",
    "and_bits",
    "and_bits_cost",
    "coarse_max",
    "coarse_max_cost",
    "compute_on_grid",
    "downcast_paper",
    "einsum",
    "invert_bits",
    "lift",
    "lookup",
    "matmul",
    "memory_channels",
    "multiply",
    "negate",
    "product_cost",
    "product_type",
    "range_word_cost",
    "recast",
    "recast_cost",
    "recast_in_place",
    "recast_in_place_cost",
    "reveal",
    "reveal_cost",
    "reveal_range_word",
    "reveal_to_client",
    "reveal_to_client_cost",
    "share",
    "share_cost",
    "square",
    "subtract",
    "sum_of_squares",
    "sum_over",
    "table_function",
    "table_function_cost",
    "upcast_paper",
]
