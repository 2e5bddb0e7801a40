"""recast: the one protocol that changes a fixed-point type.

Truncation, upcast, downcast and truncation with upcast are one protocol with different
parameters. ``convert`` is its core, shared with the fused multiplications; it starts
from a sum of two summands, a known to P0 and P2 and s known to P1.

Notation: a recast goes from (l, f) to (l', f'); t = f - f' >= 0 bits are cut off (a
left shift, if f' > f, is local and comes last); k = max(0, t + l' - l).

Steps
    0. a = x0 + 2^(l-2) + h at P0 and P2, s = x1 + x2 - h at P1, with h = 2^(t-1), or 0
       if t = 0. As |x| < 2^(l-2), the biased value a + s mod 2^l has top bit 0, so the
       carry of a + s over 2^l is w = 1 - u*v with u = 1 - msb(s), known to P1,
       v = 1 - msb(a), known to P0, P2. To random shares h makes no difference; what
       was public, zeros that a mask left above all, is rounded to nearest because of
       it, and else would always be rounded up.
    1. y = (a >> t) + (s >> t) + (u*v - 1) * 2^(l-t) - 2^(l-2-t) + (1 if t > 0), over
       Z_2^l'. Only u*v mod 2^k matters.
    2. a >> t and s >> t become replicated shares (``blocks.two_party``).
    3. The product u*v mod 2^k is shared, in two rounds or in one (``blocks.product``),
       in the same messages.
    4. If it is checked, P0 and P2 note whether the biased value was legal
       (``blocks.range_check``), in the same messages. Of values with |x| < 2^(l-1)
       that come out wrong every one is noted, and none that is legal; what is beyond
       the ring has forgotten.
    When t + l' <= l (a downcast with room) the carry vanishes mod 2^l': step 3 falls
    away. Starting from shares no message is needed at all: all three are shifted where
    they are, after 2^(t-1) is added to each of them to centre the error.

Cost
    two rounds: l' + 3k bits per element; one round: l' + 4k; with k = 0 one round
    either way; 3 bits more if k > 0 and it is checked; local: 0 bits, 0 rounds.
    The error is triangular on (-1, 1] ulp with mean 2^-t; for the local downcast it
    is the sum of three uniforms, in (-1.5, 1.5] ulp with mean 1.5 * 2^-t.

Security (semi-honest, one corrupted party)
    Steps 2 to 4 are blocks with masks of their own: every message is uniform and
    independent of all else its receiver knows, and a simulator draws it at random. What
    is computed is y as written in step 1: how it rounds follows from the cut bits of a
    (known to P0 and P2) and of s (known to P1). So whoever learns y itself and also
    played a role learns one comparison on the bits that were cut; the client, who plays
    none, does not. Whether the precondition
    |x| < 2^(l-2) holds changes no message's distribution; if it fails the result is
    wrong, and noted if it is checked, but not revealing.

Source
    docs/explanation/protocols.md; the carry from top bits follows the positive-bias
    trick of the Ditto paper (ICML 2024) and Escudero et al. (CRYPTO 2020).
"""

from dataclasses import dataclass

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.blocks import (
    CHECK_WIDTH,
    P1,
    Rounds,
    beside,
    check_overflow,
    product_fields,
    replicate_two_party,
    together,
    two_party_product,
    two_party_summand,
)
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.party import (
    PairInstance,
    PairSteps,
    Party,
    Role,
    Task,
    in_parts,
)
from ditto.sharing import Shared


@dataclass(frozen=True)
class Conversion:
    """The parameters of a recast between two types."""

    source: FxpType
    target: FxpType

    def __post_init__(self) -> None:
        if self.cut > self.source.bits - 2:
            raise FixedPointTypeError(
                f"A recast from {self.source} to {self.target} cuts {self.cut} bits; "
                f"at most bits - 2 = {self.source.bits - 2} can be cut. "
                f"Recast in two steps."
            )
        if self.lift >= self.target.bits:
            raise FixedPointTypeError(
                f"A recast from {self.source} to {self.target} shifts left by "
                f"{self.lift}: nothing of the value is left in {self.target.bits} bits."
            )

    @property
    def cut(self) -> int:
        """t: bits that are cut off."""
        return max(0, self.source.frac - self.target.frac)

    @property
    def lift(self) -> int:
        """The left shift that comes last."""
        return max(0, self.target.frac - self.source.frac)

    @property
    def carry_width(self) -> int:
        """k: bits in which the carry matters."""
        return max(0, self.cut + self.target.bits - self.source.bits)

    @property
    def is_local(self) -> bool:
        """Whether shifting the shares where they are is enough."""
        return self.carry_width == 0 and self.target.bits < self.source.bits

    @property
    def bias(self) -> int:
        """What makes every legal value positive."""
        return 1 << (self.source.bits - 2)

    @property
    def half(self) -> int:
        """Half of the last place that is left."""
        return 1 << self.cut >> 1

    @property
    def constant(self) -> int:
        """The public summand of step 1."""
        t, bits = self.cut, self.source.bits
        return (1 if t else 0) - (1 << (bits - t)) - (self.bias >> t)


def recast(
    party: Party,
    x: Shared,
    to: FxpType,
    *,
    rounds: Rounds = 2,
    checked: bool = False,
) -> Shared:
    """Shares of the same values in another type. See the module's text."""
    return party.run_task(recast_task(x, to, rounds, checked=checked))


def recast_task(
    x: Shared, to: FxpType, rounds: Rounds = 2, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``recast``."""
    conversion = Conversion(x.type, to)
    if x.type == to:
        return Task.done(x)
    if x.ring.bits == to.bits and not conversion.cut:
        return Task.done(lifted(x.first, x.second, conversion, x.shape))
    if conversion.is_local:
        return Task.done(_shift_shares(x, conversion))
    first, second = x.first.reshape(-1), x.second.reshape(-1)

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            shares, half = (first[part], second[part]), conversion.half
            summand = two_party_summand(role, shares, x.ring, conversion.bias + half)
            if role.rank == P1:
                summand = x.ring.reduce(summand - x.ring.scalar(half))
            return convert(role, summand, conversion, rounds, checked)

        return instance

    return in_parts(
        x.size, instance_of, lambda pair: lifted(*pair, conversion, x.shape)
    )


def recast_cost(
    count: int,
    source: FxpType,
    to: FxpType,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Cost:
    """l' + 3k bits per element in two rounds, l' + 4k in one; 3 if it is checked."""
    conversion = Conversion(source, to)
    if conversion.is_local or (source.bits == to.bits and not conversion.cut):
        return FREE
    widths = convert_widths(conversion, rounds, checked)
    return Cost.of(count, widths, convert_rounds(conversion, rounds))


def convert_widths(conversion: Conversion, rounds: Rounds, checked: bool) -> list[int]:
    """The widths of the fields that ``convert`` sends per element."""
    carries = [conversion.carry_width] * sum(product_fields(rounds))
    flags = [CHECK_WIDTH] if checked and conversion.carry_width else []
    return [conversion.target.bits, *carries, *flags]


def convert_rounds(conversion: Conversion, rounds: Rounds) -> int:
    """The rounds of ``convert``."""
    return rounds if conversion.carry_width else 1


def convert(
    role: Role, summand: Words, conversion: Conversion, rounds: Rounds, checked: bool
) -> PairSteps:
    """Steps 1 to 4: ``summand`` is s at P1 and a at P0 and P2, flat."""
    shifted = _shift_right(summand, conversion)
    if role.rank != P1:
        ring = conversion.target.ring
        shifted = ring.reduce(shifted + ring.scalar(conversion.constant))
    shares = replicate_two_party(role, shifted, conversion.target.ring)
    if conversion.carry_width == 0:
        return (yield from shares)
    if checked:
        flags = check_overflow(role, summand, conversion.source.bits)
        shares = beside(shares, flags)
    bit = _top_bit_clear(summand, conversion)
    product = two_party_product(role, bit, _carry_ring(conversion), rounds)
    carries, summands = yield from together(product, shares)
    first, second = (
        _add_carry(share, carry, conversion)
        for share, carry in zip(summands, carries, strict=True)
    )
    return first, second


def _carry_ring(c: Conversion) -> Ring:
    return Ring(c.carry_width)


def _shift_right(summand: Words, c: Conversion) -> Words:
    return c.target.ring.reduce(summand >> summand.dtype.type(c.cut))


def _top_bit_clear(summand: Words, c: Conversion) -> Words:
    top = summand >> summand.dtype.type(c.source.bits - 1)
    bit: Words = (top ^ top.dtype.type(1)).astype(_carry_ring(c).dtype)
    return bit


def _add_carry(share: Words, carry: Words, c: Conversion) -> Words:
    """share + carry * 2^(l-t) over the target ring."""
    ring = c.target.ring
    up = ring.dtype.type(ring.bits - c.carry_width)
    return ring.reduce(share + (carry.astype(ring.dtype) << up))


def _shift_shares(x: Shared, c: Conversion) -> Shared:
    ring, cut, half = x.ring, x.ring.dtype.type(c.cut), x.ring.scalar(c.half)

    def shift(share: Words) -> Words:
        centred = ring.reduce(share.reshape(-1) + half)
        return c.target.ring.reduce(centred.reshape(share.shape) >> cut)

    return lifted(shift(x.first), shift(x.second), c, x.shape)


def lifted(
    first: Words, second: Words, c: Conversion, shape: tuple[int, ...]
) -> Shared:
    """Flat shares in their shape, after the left shift that comes last."""
    ring = c.target.ring
    up = ring.dtype.type(c.lift)
    shares = (np.asarray(s).reshape(shape) for s in (first, second))
    a, b = (ring.reduce(s << up) if c.lift else s for s in shares)
    return Shared(a, b, c.target)
