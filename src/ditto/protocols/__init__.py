"""Protocols on replicated shares, the channel they talk over, and their one registry.

In topological order: channel, memory, party, cost, session; linear, share, reveal,
reshare, boolean, recast, maximum, kernels, multiply, lookup, curve, paper; forms,
registry.
"""

from ditto.protocols.boolean import and_bits, and_bits_cost
from ditto.protocols.channel import Channel, Traffic
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.curve import Curve, curve, curve_cost
from ditto.protocols.forms import (
    Form,
    client_bytes,
    gather,
    give_back,
    hand_out,
    take_in,
)
from ditto.protocols.linear import (
    add,
    add_public,
    align,
    concatenate,
    invert_bits,
    lift,
    multiply_public,
    negate,
    subtract,
    sum_over,
)
from ditto.protocols.lookup import lookup
from ditto.protocols.maximum import Grid, coarse_max, coarse_max_cost
from ditto.protocols.memory import MemoryChannel, memory_channels
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
from ditto.protocols.party import Party
from ditto.protocols.recast import Rounds, recast, recast_cost
from ditto.protocols.registry import PROTOCOLS, Error, Protocol, Variant
from ditto.protocols.reshare import reshare, reshare_cost
from ditto.protocols.reveal import (
    open_at_client,
    reveal,
    reveal_cost,
    reveal_to_client,
    reveal_to_client_cost,
)
from ditto.protocols.session import agree
from ditto.protocols.share import share, share_cost

__all__ = [
    "FREE",
    "PROTOCOLS",
    "Channel",
    "Cost",
    "Curve",
    "Error",
    "Form",
    "Grid",
    "MemoryChannel",
    "Party",
    "Protocol",
    "Rounds",
    "Traffic",
    "Variant",
    "add",
    "add_public",
    "agree",
    "align",
    "and_bits",
    "and_bits_cost",
    "client_bytes",
    "coarse_max",
    "coarse_max_cost",
    "concatenate",
    "curve",
    "curve_cost",
    "downcast_paper",
    "einsum",
    "gather",
    "give_back",
    "hand_out",
    "invert_bits",
    "lift",
    "lookup",
    "matmul",
    "memory_channels",
    "multiply",
    "multiply_public",
    "negate",
    "open_at_client",
    "product_cost",
    "product_type",
    "recast",
    "recast_cost",
    "reshare",
    "reshare_cost",
    "reveal",
    "reveal_cost",
    "reveal_to_client",
    "reveal_to_client_cost",
    "share",
    "share_cost",
    "square",
    "subtract",
    "sum_of_squares",
    "sum_over",
    "take_in",
    "upcast_paper",
]
