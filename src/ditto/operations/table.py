"""What a graph may compute: one row for each operation, with all that passes ask of it.

Operations are JAX's primitives by name, and a few of our own (``own``). A new one is a
row here, and its meaning in ``own`` if JAX has no primitive for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto
from types import MappingProxyType


class Trait(Flag):
    """What is true of an operation."""

    NONE = 0
    LINEAR = auto()
    """Moves or adds elements: a party does it on its shares alone."""
    RESHAPES = auto()
    """Only changes the shape around the elements, or repeats them."""
    ELEMENTWISE = auto()
    """Each element of the result depends on the same element of the operands."""
    KEEPS_RANGE = auto()
    """The result has the range of the operand, beside what reshapes."""
    KEEPS_NUMBERS = auto()
    """Elements are moved or chosen, not computed with, beside what reshapes."""
    COMPARES = auto()
    """An order or equality of two operands."""
    ORDERS = auto()
    """Needs bits of its operands, which SPU finds in the low ring at any frac."""
    PIECEWISE = auto()
    """May change a function far from where it is compared with others."""
    TELLTALE = auto()
    """Part of every activation function that is recognised."""
    BITWISE = auto()
    """SPU leaves its result shared bitwise."""
    PAPER_HIGH = auto()
    """In the high ring in the Ditto paper."""
    MULTIPLIES = auto()
    """SPU truncates its result after it has had twice the fraction bits."""
    CONTRACTS = auto()
    """A linear layer: sums of products."""
    AFFINE = auto()
    """With public numbers it joins the function in the high ring that it leads to, so
    that its operand is truncated once, on its way up."""


SPU_LIMIT = 2.0**16
"""Beyond this SPU's functions are silently wrong."""


@dataclass(frozen=True)
class Traits:
    """All that is known of an operation beside its meaning."""

    flags: Trait
    first_index: int | None = None
    """The operand from which on operands say where, not what."""
    spu_limit: float | None = None
    """Arguments beyond which SPU's own is wrong in the high ring."""
    spu_error: float = 0.0
    """Of SPU's approximation in the high ring, relative, beside a few last places."""


def _table() -> dict[str, Traits]:
    none, linear, reshapes = Trait.NONE, Trait.LINEAR, Trait.LINEAR | Trait.RESHAPES
    each, range_, numbers = Trait.ELEMENTWISE, Trait.KEEPS_RANGE, Trait.KEEPS_NUMBERS
    orders, pieces = Trait.ORDERS, Trait.PIECEWISE
    compares = each | Trait.COMPARES | orders | pieces
    tells, bits, high = Trait.TELLTALE, Trait.BITWISE, Trait.PAPER_HIGH
    times, contracts, affine = Trait.MULTIPLIES, Trait.CONTRACTS, Trait.AFFINE
    return {
        "abs": Traits(each | orders | pieces),
        "acos": Traits(each),
        "acosh": Traits(each, spu_limit=SPU_LIMIT),
        "add": Traits(each | affine),
        "and": Traits(each | orders | bits),
        "argmax": Traits(high),
        "argmin": Traits(high),
        "asin": Traits(each),
        "asinh": Traits(each, spu_limit=SPU_LIMIT),
        "atan": Traits(each),
        "atan2": Traits(each | high, spu_limit=SPU_LIMIT),
        "atanh": Traits(each),
        "bounded_max": Traits(none),
        "bounded_min": Traits(none),
        "broadcast_in_dim": Traits(reshapes),
        "ceil": Traits(each | pieces | bits | high),
        "clamp": Traits(each | pieces),
        "coarse_max": Traits(none),
        "concatenate": Traits(linear | numbers),
        "conv_general_dilated": Traits(times | contracts),
        "convert_element_type": Traits(each),
        "cos": Traits(each | high),
        "cosh": Traits(each, spu_limit=5.0),
        "cummax": Traits(none),
        "cummin": Traits(none),
        "cumprod": Traits(times),
        "cumsum": Traits(linear),
        "piecewise_quadratic": Traits(none),
        "table_function": Traits(none),
        "div": Traits(each, spu_limit=SPU_LIMIT, spu_error=2.0**-10),
        "dot_general": Traits(times | contracts),
        "dynamic_slice": Traits(linear, first_index=1),
        "dynamic_update_slice": Traits(linear | numbers, first_index=2),
        "eq": Traits(compares),
        "erf": Traits(each | tells | high, spu_limit=SPU_LIMIT),
        "erf_inv": Traits(each),
        "erfc": Traits(each | tells | high, spu_limit=SPU_LIMIT),
        "exp": Traits(each | tells | high, spu_limit=5.0, spu_error=2.0**-8),
        "exp2": Traits(each | high, spu_limit=7.0),
        "exp_negative": Traits(each | high),
        "exponential": Traits(none),
        "expm1": Traits(each | high, spu_limit=5.0),
        "floor": Traits(each | pieces | bits | high),
        "gather": Traits(linear, first_index=1),
        "ge": Traits(compares),
        "gelu": Traits(each),
        "gelu_tanh": Traits(each),
        "gt": Traits(compares),
        "integer_pow": Traits(each | times),
        "iota": Traits(none),
        "is_finite": Traits(each),
        "le": Traits(compares),
        "log": Traits(each | high, spu_limit=SPU_LIMIT, spu_error=2.0**-8),
        "log1p": Traits(each | high, spu_limit=SPU_LIMIT),
        "logistic": Traits(each | tells | high, spu_limit=SPU_LIMIT, spu_error=2.0**-6),
        "lookup": Traits(none),
        "lt": Traits(compares),
        "max": Traits(each | orders | pieces),
        "min": Traits(each | orders | pieces),
        "mul": Traits(each | times | affine),
        "ne": Traits(compares),
        "neg": Traits(each),
        "not": Traits(each | orders | bits),
        "or": Traits(each | orders | bits),
        "pad": Traits(linear | numbers),
        "pow": Traits(each | high, spu_limit=SPU_LIMIT),
        "reciprocal": Traits(each | high, spu_limit=SPU_LIMIT, spu_error=2.0**-10),
        "reduce_and": Traits(orders),
        "reduce_max": Traits(orders),
        "reduce_min": Traits(orders),
        "reduce_or": Traits(orders),
        "reduce_prod": Traits(times),
        "reduce_sum": Traits(linear),
        "rem": Traits(each | pieces | high),
        "reshape": Traits(reshapes),
        "rev": Traits(linear),
        "round": Traits(each | pieces | bits | high),
        "rsqrt": Traits(each | high, spu_limit=SPU_LIMIT, spu_error=2.0**-8),
        "select_n": Traits(each | numbers | orders | pieces),
        "shift_left": Traits(each | bits),
        "shift_right_arithmetic": Traits(each | bits),
        "shift_right_logical": Traits(each | bits),
        "sign": Traits(each | orders | pieces | bits),
        "silu": Traits(each),
        "sin": Traits(each | high),
        "sinh": Traits(each, spu_limit=5.0),
        "slice": Traits(linear | numbers),
        "sort": Traits(high),
        "sqrt": Traits(each | high, spu_limit=SPU_LIMIT, spu_error=2.0**-8),
        "square": Traits(each | times),
        "squeeze": Traits(reshapes),
        "sub": Traits(each | affine),
        "tanh": Traits(each | tells | high, spu_limit=SPU_LIMIT, spu_error=2.0**-6),
        "transpose": Traits(linear | range_),
        "within": Traits(linear | range_),
        "xor": Traits(each | orders | bits),
    }


TRAITS: Mapping[str, Traits] = MappingProxyType(_table())


def has(op: str, trait: Trait) -> bool:
    """Whether an operation has a trait; inputs and constants have none."""
    return op in TRAITS and bool(TRAITS[op].flags & trait)
