"""What the protocols are built of: each idiom that security rests on, once.

A block is a part of a protocol's steps, written for a role like the protocol itself.
Its docstring says what every role sees and why that tells it nothing; a protocol's own
argument refers to it. All masks are fresh: a stream gives each out once.

In topological order: groups, lockstep; two_party; two_to_three, replicate; product,
bit_product, conjunction, bits, range_check, wraps, one_hot;
table_product, grid.
"""

from ditto.protocols.blocks.bit_product import bit_product
from ditto.protocols.blocks.bits import and_words, complement
from ditto.protocols.blocks.conjunction import (
    conjunction_bits,
    known_bits,
    summed_conjunctions,
)
from ditto.protocols.blocks.grid import (
    FAR_CELLS,
    FAR_REACH,
    MOST_FAR_WORDS,
    MOST_LEVELS,
    Grid,
    far_flags,
    grid_summand,
    level_summand,
)
from ditto.protocols.blocks.groups import Group
from ditto.protocols.blocks.lockstep import beside, idle, together
from ditto.protocols.blocks.one_hot import (
    byte_sums,
    selected_bits,
    shared_one_hot,
    summed_entries,
)
from ditto.protocols.blocks.product import Rounds, product_fields, two_party_product
from ditto.protocols.blocks.range_check import (
    CHECK_WIDTH,
    VERDICT_BITS,
    check_overflow,
    note_flags,
)
from ditto.protocols.blocks.replicate import replicate, rerandomise
from ditto.protocols.blocks.table_product import (
    Chosen,
    Sums,
    choose,
    table_product,
    table_product_widths,
)
from ditto.protocols.blocks.two_party import (
    P0,
    P1,
    P2,
    cell_index,
    masks_of_p0_p2,
    replicate_two_party,
    split_of_p1,
    two_party_summand,
)
from ditto.protocols.blocks.two_to_three import two_to_three
from ditto.protocols.blocks.wraps import (
    FLAG_CLASSES,
    FLAGGED,
    WRAP_FIELDS,
    check_wraps,
    shared_wraps,
)

__all__ = [
    "CHECK_WIDTH",
    "FAR_CELLS",
    "FAR_REACH",
    "FLAGGED",
    "FLAG_CLASSES",
    "MOST_FAR_WORDS",
    "MOST_LEVELS",
    "P0",
    "P1",
    "P2",
    "VERDICT_BITS",
    "WRAP_FIELDS",
    "Chosen",
    "Grid",
    "Group",
    "Rounds",
    "Sums",
    "and_words",
    "beside",
    "bit_product",
    "byte_sums",
    "cell_index",
    "check_overflow",
    "check_wraps",
    "choose",
    "complement",
    "conjunction_bits",
    "far_flags",
    "grid_summand",
    "idle",
    "known_bits",
    "level_summand",
    "masks_of_p0_p2",
    "note_flags",
    "product_fields",
    "replicate",
    "replicate_two_party",
    "rerandomise",
    "selected_bits",
    "shared_one_hot",
    "shared_wraps",
    "split_of_p1",
    "summed_conjunctions",
    "summed_entries",
    "table_product",
    "table_product_widths",
    "together",
    "two_party_product",
    "two_party_summand",
    "two_to_three",
]
