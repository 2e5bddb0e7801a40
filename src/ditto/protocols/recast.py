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
       in the same messages. In three rounds it comes first, as a sum of two numbers
       again (``blocks.bit_product``), and step 2 shares all of y.
    4. If it is checked, P0 and P2 note whether the biased value was legal
       (``blocks.range_check``), in the same messages. Of values with |x| < 2^(l-1)
       that come out wrong every one is noted, and none that is legal; what is beyond
       the ring has forgotten.
    When t + l' <= l (a downcast with room) the carry vanishes mod 2^l': step 3 falls
    away. Starting from shares no message is needed at all: all three are shifted where
    they are, after 2^(t-1) is added to each of them to centre the error.

Cost
    two rounds: l' + 3k bits per element; one round: l' + 4k; three: l' + 2k + 1; with
    k = 0 one round in any case; 3 bits more if k > 0 and it is checked; local: 0 bits,
    0 rounds.
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
from typing import Any

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import RINGS, FxpType, Ring, Words
from ditto.native import recast as native
from ditto.protocols.blocks import (
    CHECK_WIDTH,
    P1,
    Rounds,
    bit_product,
    check_overflow,
    product_fields,
    replicate_two_party,
    together,
    two_party_product,
    two_party_summand,
)
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.party import (
    Pair,
    PairSteps,
    Party,
    Role,
    Steps,
    Task,
    shares_in_parts,
)
from ditto.sharing import Shared

_SEEN = 2
"""Bits that are cut off of which a fused product still sends all."""


def unseen(cut: int) -> int:
    """How many last bits of those that are cut off are left out of messages."""
    return max(0, cut - _SEEN)


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
    def carry_ring(self) -> Ring:
        """Z_2^k, if there is a carry."""
        return RINGS[self.carry_width - 1]

    @property
    def unseen(self) -> int:
        """d: last bits of what is cut off that make no difference worth their price.

        Without them in two messages (``blocks.two_to_three``) the deviation of a
        result's error is 3 % larger.
        """
        return unseen(self.cut)

    @property
    def blur(self) -> float:
        """How much more a result is off without them, in units of its last place."""
        return 2.0 ** (self.unseen - self.cut) if self.unseen else 0.0

    @property
    def is_local(self) -> bool:
        """Whether shifting the shares where they are is enough."""
        return self.carry_width == 0 and self.target.bits < self.source.bits

    @property
    def is_free(self) -> bool:
        """Whether nothing is sent: shares are shifted to the right, to the left, or
        not at all."""
        return self.is_local or (self.source.bits == self.target.bits and not self.cut)

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
    if conversion.is_free:
        return Task.done(recast_for_free(x, to))

    def steps(role: Role, shares: Pair) -> PairSteps:
        half = conversion.half
        summand = two_party_summand(role, shares, x.ring, conversion.bias + half)
        if role.rank == P1:
            summand = x.ring.reduce(summand - x.ring.scalar(half))
        return convert(role, summand, conversion, rounds, checked)

    return shares_in_parts(
        x.flat,
        steps,
        lambda pair: lifted(*pair, conversion, x.shape),
    )


def recast_cost(
    count: int,
    source: FxpType,
    to: FxpType,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Cost:
    """l' + 3k bits per element in two rounds, l' + 4k in one, l' + 2k + 1 in three;
    3 if it is checked."""
    conversion = Conversion(source, to)
    if conversion.is_free:
        return FREE
    widths = convert_widths(conversion, rounds, checked)
    return Cost.of(count, widths, convert_rounds(conversion, rounds))


def convert_widths(conversion: Conversion, rounds: Rounds, checked: bool) -> list[int]:
    """The widths of the fields that ``convert`` sends per element."""
    if not conversion.carry_width:
        return [conversion.target.bits]
    flags = [CHECK_WIDTH] if checked else []
    return [conversion.target.bits, *_carry_widths(conversion, rounds), *flags]


def _carry_widths(conversion: Conversion, rounds: Rounds) -> list[int]:
    k = conversion.carry_width
    return [1, k, k] if rounds == 3 else [k] * sum(product_fields(rounds))


def convert_rounds(conversion: Conversion, rounds: Rounds) -> int:
    """The rounds of ``convert``."""
    return rounds if conversion.carry_width else 1


def convert(
    role: Role, summand: Words, conversion: Conversion, rounds: Rounds, checked: bool
) -> PairSteps:
    """Steps 1 to 4: ``summand`` is s at P1 and a at P0 and P2, flat."""
    constant = 0 if role.rank == P1 else conversion.constant
    shifted, ring = _shift_right(summand, conversion, constant), conversion.target.ring
    if conversion.carry_width == 0:
        return (yield from replicate_two_party(role, shifted, ring))
    bit, carry_ring = _top_bit_clear(summand, conversion), conversion.carry_ring
    flags: list[Steps[Any]] = []
    if checked:
        flags.append(check_overflow(role, summand, conversion.source.bits))
    if rounds == 3:
        carry, *_ = yield from together(bit_product(role, bit, carry_ring), *flags)
        shifted = _add_carry(shifted, carry, conversion)
        return (yield from replicate_two_party(role, shifted, ring))
    product = two_party_product(role, bit, carry_ring, rounds)
    shares = replicate_two_party(role, shifted, ring)
    carries, summands, *_ = yield from together(product, shares, *flags)
    first, second = (
        _add_carry(share, carry, conversion)
        for share, carry in zip(summands, carries, strict=True)
    )
    return first, second


def _shift_right(summand: Words, c: Conversion, constant: int) -> Words:
    """(summand >> t) + constant over the target ring."""
    ring, added = c.target.ring, c.target.ring.scalar(constant)
    if native.there():
        return native.shifted(summand, c.cut, int(added), ring.pattern, ring.dtype)
    return ring.reduce(ring.reduce(summand >> summand.dtype.type(c.cut)) + added)


def _top_bit_clear(summand: Words, c: Conversion) -> Words:
    if native.there():
        return native.top_clear(summand, c.source.bits - 1, c.carry_ring.dtype)
    top = summand >> summand.dtype.type(c.source.bits - 1)
    bit: Words = (top ^ top.dtype.type(1)).astype(c.carry_ring.dtype)
    return bit


def _add_carry(share: Words, carry: Words, c: Conversion) -> Words:
    """share + carry * 2^(l-t) over the target ring."""
    ring = c.target.ring
    if native.there():
        up_by = ring.bits - c.carry_width
        return native.with_carry(share, carry, up_by, ring.pattern)
    up = ring.dtype.type(ring.bits - c.carry_width)
    return ring.reduce(share + (carry.astype(ring.dtype) << up))


def recast_for_free(x: Shared, to: FxpType) -> Shared:
    """A recast that sends nothing; without its last bits the value is right modulo the
    smaller ring, whatever it is."""
    conversion = Conversion(x.type, to)
    if not conversion.is_free:
        raise FixedPointTypeError(f"Shares of {x.type} are not shifted to {to}.")
    if x.type == to:
        return x
    if conversion.is_local:
        return _shift_shares(x, conversion)
    return lifted(x.first, x.second, conversion, x.shape)


def _shift_shares(x: Shared, c: Conversion) -> Shared:
    first, second = (shifted_share(share.reshape(-1), c) for share in x.flat)
    return lifted(first, second, c, x.shape)


def shifted_share(share: Words, c: Conversion) -> Words:
    """A flat share, or a summand, of a recast that is local."""
    ring = c.source.ring
    centred = ring.reduce(share + ring.scalar(c.half))
    return c.target.ring.reduce(centred >> ring.dtype.type(c.cut))


def lifted(
    first: Words, second: Words, c: Conversion, shape: tuple[int, ...]
) -> Shared:
    """Flat shares in their shape, after the left shift that comes last."""
    ring = c.target.ring
    up = ring.dtype.type(c.lift)
    shares = (np.asarray(s).reshape(shape) for s in (first, second))
    a, b = (ring.reduce(s << up) if c.lift else s for s in shares)
    return Shared(a, b, c.target)
