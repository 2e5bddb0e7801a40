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
    2. P1 reshares s >> t: share 1 is a mask of P0 and P1, share 2 goes to P2.
    3. The product u*v mod 2^k is shared:
       two rounds: P1 sends u - rho to P2, rho a mask of P0 and P1; P0 sends
       d0 = v*rho - m0 and P2 sends d2 = v*(u - rho) - m2 to P1, m0 and m2 masks of P0
       and P2. The shares are m0 + m2, d0, d2.
       one round: with masks p, r1 of P0 and P1 and q, r2 of P1 and P2, P1 sends u + q
       to P0 and u + p to P2, P2 sends v*q + r2 to P0, P0 sends v*p + r1 to P2. Now
       both know v*u - r1 - r2, which is share 0; shares 1 and 2 are r1 and r2.
    When t + l' <= l (a downcast with room) the carry vanishes mod 2^l': step 3 falls
    away. Starting from shares no message is needed at all: all three are shifted where
    they are, after 2^(t-1) is added to each of them to centre the error.

Cost
    two rounds: l' + 3k bits an element; one round: l' + 4k; with k = 0 one round
    either way; local: 0 bits, 0 rounds.
    The error is triangular on (-1, 1] ulp with mean 2^-t; for the local downcast it
    is the sum of three uniforms, in (-1.5, 1.5] ulp with mean 1.5 * 2^-t.

Security (semi-honest, one corrupted party)
    P0 sees, in one round, u + q and v*q + r2: q and r2 are fresh masks it does not
    know. In two rounds it sees nothing. P1 sees, in two rounds, d0 and d2, hidden by
    m0 and m2, which are independent (one mask for both would let P1 solve for v); in
    one round nothing. P2 sees share 2 of s >> t, hidden by a mask of P0 and P1, and
    u - rho, or u + p and v*p + r1: rho, p and r1 are fresh masks of P0 and P1. So
    every message is uniform and independent of all else its receiver knows, and a
    simulator draws it at random. What is computed is y as written in step 1: how it
    rounds follows from the cut bits of a (known to P0 and P2) and of s (known to P1).
    So whoever learns y itself and also played a role learns one comparison on the bits
    that were cut; the client, who plays none, does not. Whether the precondition
    |x| < 2^(l-2) holds changes no message's distribution; if it fails the result is
    wrong, not revealing.

Source
    docs/explanation/protocols.md; the carry from top bits follows the positive-bias
    trick of the Ditto paper (ICML 2024) and Escudero et al. (CRYPTO 2020); the
    one-round product replaces the two three-party OTs (6k bits) of ABY3 (CCS 2018,
    section 5.4).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Pair,
    PairInstance,
    PairSteps,
    Party,
    Role,
    Task,
    in_parts,
)
from ditto.sharing import Masks, Rank, Shared

P0, P1, P2 = Rank.P0, Rank.P1, Rank.P2
Rounds = Literal[1, 2]


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


def masks_beside_p1(role: Role) -> Masks:
    """The masks that P0 and P2 share."""
    return role.masks_with(P2 if role.rank == P0 else P0)


def summand_of(role: Role, held: Pair, ring: Ring, public: int) -> Words:
    """x and a public number as two summands: x0 + public at P0, P2; x1 + x2 at P1."""
    first, second = held
    if role.rank == P1:
        return ring.reduce(first + second)
    x0 = first if role.rank == P0 else second
    return ring.reduce(x0 + ring.scalar(public))


def recast(party: Party, x: Shared, to: FxpType, *, rounds: Rounds = 2) -> Shared:
    """Shares of the same values in another type. See the module's text."""
    return party.take(recasting(x, to, rounds))


def recasting(x: Shared, to: FxpType, rounds: Rounds = 2) -> Task[Shared]:
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
            held, half = (first[part], second[part]), conversion.half
            summand = summand_of(role, held, x.ring, conversion.bias + half)
            if role.rank == P1:
                summand = x.ring.reduce(summand - x.ring.scalar(half))
            return convert(role, summand, conversion, rounds)

        return instance

    return in_parts(
        x.size, instance_of, lambda pair: lifted(*pair, conversion, x.shape)
    )


def recast_cost(count: int, source: FxpType, to: FxpType, rounds: Rounds = 2) -> Cost:
    """l' + 3k bits an element in two rounds, l' + 4k in one."""
    conversion = Conversion(source, to)
    if conversion.is_local or (source.bits == to.bits and not conversion.cut):
        return FREE
    widths = convert_widths(conversion, rounds)
    return Cost.of(count, widths, convert_rounds(conversion, rounds))


def convert_widths(conversion: Conversion, rounds: Rounds) -> list[int]:
    """The widths of the fields that ``convert`` sends per element."""
    carries = 3 if rounds == 2 else 4
    return [conversion.target.bits, *[conversion.carry_width] * carries]


def convert_rounds(conversion: Conversion, rounds: Rounds) -> int:
    """The rounds of ``convert``."""
    return rounds if conversion.carry_width else 1


def convert(
    role: Role, summand: Words, conversion: Conversion, rounds: Rounds
) -> PairSteps:
    """Steps 1 to 3: ``summand`` is s at P1 and a at P0 and P2, flat."""
    if conversion.carry_width == 0:
        return _convert_without_carry(role, summand, conversion)
    if rounds == 2:
        return _convert_in_two(role, summand, conversion)
    return _convert_in_one(role, summand, conversion)


def _convert_in_two(role: Role, summand: Words, c: Conversion) -> PairSteps:
    n, k, ring, small = summand.size, c.carry_width, c.target.ring, _carry_ring(c)
    shifted = _shift_right(summand, c)
    bit = _top_bit_clear(summand, c)
    if role.rank == P1:
        rho = role.previous.draw("rho", n, small)
        s1 = role.previous.draw("s1", n, ring)
        s2 = ring.reduce(shifted - s1)
        inbox = yield Exchange(
            send={P2: [Field(bit - rho, k), Field(s2, ring.bits)]},
            receive={P0: [Expected(n, k)]},
        )
        (d0,) = inbox[P0]
        inbox = yield Exchange(receive={P2: [Expected(n, k)]})
        (d2,) = inbox[P2]
        return _add_carry(s1, d0, c), _add_carry(s2, d2, c)
    shared = masks_beside_p1(role)
    m0, m2 = shared.draw("m0", n, small), shared.draw("m2", n, small)
    y0 = _add_carry(shifted + ring.scalar(c.constant), m0 + m2, c)
    if role.rank == P0:
        rho = role.next.draw("rho", n, small)
        s1 = role.next.draw("s1", n, ring)
        d0 = bit * rho - m0
        yield Exchange(send={P1: [Field(d0, k)]})
        return y0, _add_carry(s1, d0, c)
    inbox = yield Exchange(receive={P1: [Expected(n, k), Expected(n, ring.bits)]})
    masked, s2 = inbox[P1]
    d2 = bit * masked - m2
    yield Exchange(send={P1: [Field(d2, k)]})
    return _add_carry(s2, d2, c), y0


def _convert_in_one(role: Role, summand: Words, c: Conversion) -> PairSteps:
    n, k, ring, small = summand.size, c.carry_width, c.target.ring, _carry_ring(c)
    shifted = _shift_right(summand, c)
    bit = _top_bit_clear(summand, c)
    if role.rank == P1:
        p, r1 = (role.previous.draw(name, n, small) for name in ("p", "r1"))
        q, r2 = (role.next.draw(name, n, small) for name in ("q", "r2"))
        s1 = role.previous.draw("s1", n, ring)
        s2 = ring.reduce(shifted - s1)
        yield Exchange(
            send={
                P0: [Field(bit + q, k)],
                P2: [Field(bit + p, k), Field(s2, ring.bits)],
            }
        )
        return _add_carry(s1, r1, c), _add_carry(s2, r2, c)
    base = shifted + ring.scalar(c.constant)
    if role.rank == P0:
        p, r1 = (role.next.draw(name, n, small) for name in ("p", "r1"))
        s1 = role.next.draw("s1", n, ring)
        inbox = yield Exchange(
            send={P2: [Field(bit * p + r1, k)]},
            receive={P1: [Expected(n, k)], P2: [Expected(n, k)]},
        )
        (masked,), (correction,) = inbox[P1], inbox[P2]
        return (
            _add_carry(base, bit * masked - correction - r1, c),
            _add_carry(s1, r1, c),
        )
    q, r2 = (role.previous.draw(name, n, small) for name in ("q", "r2"))
    inbox = yield Exchange(
        send={P0: [Field(bit * q + r2, k)]},
        receive={
            P1: [Expected(n, k), Expected(n, ring.bits)],
            P0: [Expected(n, k)],
        },
    )
    (masked, s2), (correction,) = inbox[P1], inbox[P0]
    return (
        _add_carry(s2, r2, c),
        _add_carry(base, bit * masked - correction - r2, c),
    )


def _convert_without_carry(role: Role, summand: Words, c: Conversion) -> PairSteps:
    n, ring = summand.size, c.target.ring
    shifted = _shift_right(summand, c)
    if role.rank == P1:
        s1 = role.previous.draw("s1", n, ring)
        s2 = ring.reduce(shifted - s1)
        yield Exchange(send={P2: [Field(s2, ring.bits)]})
        return s1, s2
    y0 = ring.reduce(shifted + ring.scalar(c.constant))
    if role.rank == P0:
        yield Exchange()
        return y0, role.next.draw("s1", n, ring)
    inbox = yield Exchange(receive={P1: [Expected(n, ring.bits)]})
    return inbox[P1][0], y0


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
