"""The Ditto paper's own casts, kept beside ours so that both can be measured.

UpCast is Algorithm 1 of the paper, corrected: step 6 gives P0 the sum x1 + x2, which
it cannot form (it holds x0 and x1), and the bias 2^(l-2), its removal and the final
left shift are missing from the box; run literally, a negative x is wrong with
probability |x| / 2^(l-1). DownCast is the paper's local shift, as printed.

Steps of UpCast, (l, f) -> (l', f')
    1. P2 draws r in Z_2^l. It shares r and its top bit over Z_2^l' between P0 and P1:
       P0's half is a mask of P0 and P2, P1's half is sent.
    2. With x^ = x + 2^(l-2), P0 holds x0 + x1 + 2^(l-2) and P1 holds x2. They open
       y = x^ + r mod 2^l to each other.
    3. x^ < 2^(l-1), so the carry of x^ + r is top(r) * (1 - top(y)); P0 and P1 compute
       x' = y - r + carry * 2^l - 2^(l-2) over Z_2^l' on their halves.
    4. Masks z0 of P0 and P2 and z2 of P1 and P2 turn the two halves into replicated
       shares (z0, x' - z0 - z2, z2): P0 and P1 send each other their masked half.
    5. Everybody shifts left by f' - f.

Cost
    UpCast: 2l' + 2l + 2l' bits in three rounds: 320 for 32 -> 64 (the paper claims
    3l + l' = 160; its box as printed, without the masks of step 1, costs 448).
    DownCast: 0 bits; the error is in (-3, 0] ulp with mean -1.5.

Security
    P1 sees halves of r and top(r), uniform; P0 and P1 see y, hidden by r, of which
    each has only a half; the last messages are hidden by z0 and z2. P2 sees nothing.

Source
    Ditto (ICML 2024), Algorithms 1 and 3.
"""

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import P0, P1, P2
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    PairSteps,
    Party,
    Role,
    Task,
    shares_in_parts,
)
from ditto.protocols.recast import Conversion, lifted
from ditto.sharing import Shared


def upcast_paper(party: Party, x: Shared, to: FxpType) -> Shared:
    """The paper's UpCast, corrected. ``to`` has more bits and no smaller frac."""
    return party.run_task(upcast_paper_task(x, to))


def upcast_paper_task(x: Shared, to: FxpType) -> Task[Shared]:
    """The task of ``upcast_paper``."""
    if to.bits <= x.type.bits or to.frac < x.type.frac:
        raise FixedPointTypeError(
            f"The paper's UpCast needs a wider ring and no truncation, "
            f"got {x.type} to {to}."
        )
    conversion = Conversion(x.type, to)
    return shares_in_parts(
        x.flat,
        lambda role, shares: _upcast(role, *shares, conversion),
        lambda pair: lifted(*pair, conversion, x.shape),
    )


def _upcast(role: Role, first: Words, second: Words, c: Conversion) -> PairSteps:
    n, low, high = first.size, c.source.ring, c.target.ring
    if role.rank == P2:
        r = role.own.draw("r", n, low)
        top = r >> low.dtype.type(low.bits - 1)
        halves = []
        for name, value in (("r", r), ("top", top)):
            p0_half = role.next.draw(name, n, high)
            rest = high.reduce(value.astype(high.dtype) - p0_half)
            halves.append(Field(rest, high.bits))
        yield Exchange(send={P1: halves})
        return role.previous.draw("z2", n, high), role.next.draw("z0", n, high)
    if role.rank == P0:
        other, mine = P1, low.reduce(first + second + low.scalar(c.bias))
        yield Exchange()
        r_half, top_half = (role.previous.draw(name, n, high) for name in ("r", "top"))
        mask = role.previous.draw("z0", n, high)
    else:
        other, mine = P0, second
        inbox = yield Exchange(receive={P2: [Expected(n, high.bits)] * 2})
        r_half, top_half = inbox[P2]
        mask = role.next.draw("z2", n, high)
    masked = low.reduce(mine + r_half.astype(low.dtype))
    inbox = yield Exchange(
        send={other: [Field(masked, low.bits)]},
        receive={other: [Expected(n, low.bits)]},
    )
    y = low.reduce(masked + inbox[other][0])
    y_top = (y >> low.dtype.type(low.bits - 1)).astype(high.dtype)
    carry = top_half * (high.scalar(1) - y_top)
    half = (carry << high.dtype.type(low.bits)) - r_half - mask
    if role.rank == P0:
        half = half + y.astype(high.dtype) - high.scalar(c.bias)
    half = high.reduce(half)
    inbox = yield Exchange(
        send={other: [Field(half, high.bits)]},
        receive={other: [Expected(n, high.bits)]},
    )
    middle = high.reduce(half + inbox[other][0])
    return (mask, middle) if role.rank == P0 else (middle, mask)


def upcast_paper_cost(count: int, source: FxpType, to: FxpType) -> Cost:
    """4l' + 2l bits per element, three rounds."""
    widths = [to.bits] * 4 + [source.bits] * 2
    return Cost.of(count, widths, 3)


def downcast_paper(party: Party, x: Shared, to: FxpType) -> Shared:
    """The paper's DownCast: shift every share, no rounding."""
    return party.run_task(downcast_paper_task(x, to))


def downcast_paper_task(x: Shared, to: FxpType) -> Task[Shared]:
    """The task of ``downcast_paper``."""
    conversion = Conversion(x.type, to)
    if not conversion.is_local or conversion.lift:
        raise FixedPointTypeError(
            f"The paper's DownCast needs l - t >= l', got {x.type} to {to}."
        )
    cut = x.ring.dtype.type(conversion.cut)
    first, second = (to.ring.reduce(s >> cut) for s in (x.first, x.second))
    return Task.done(Shared(first, second, to))


def downcast_paper_cost(count: int, source: FxpType, to: FxpType) -> Cost:  # noqa: ARG001
    """Nothing is sent."""
    return FREE
