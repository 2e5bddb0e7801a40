"""recast_in_place: a recast in which no party knows a summand alone.

The same function as ``recast``, of the same types. There P1 alone knows the sum of two
shares, so nobody can say whether what it sends of its top bit is right. Here every
local step that is not linear is on a share, which two parties know, and each message
can be proved by its sender (``blocks.wraps``).

Notation as in ``recast``: from (l, f) to (l', f'), t = f - f' >= 0, k = t + l' - l.

Steps
    0. x0 + 2^(l-2), x1 and x2 are shares of X, with 0 <= X < 2^(l-1) as |x| < 2^(l-2);
       as integers they add up to X + w 2^l.
    1. Shares of w modulo 2^k (``blocks.wraps``).
    2. Each share is cut where it is: y = round(x0 / 2^t) + floor(x1 / 2^t) +
       ceil(x2 / 2^t) - w * 2^(l-t) - 2^(l-2-t), over Z_2^l'. What one rounds down on
       average the other rounds up; what was public, x1 = x2 = 0, is rounded to nearest.
    3. If it is checked, P1 and P2 note whether X was legal, in the messages of step 1.
       As in ``recast`` every value with |x| < 2^(l-1) that comes out wrong is noted,
       and none that is legal.
    What ``recast`` does without a message is done as there.

Cost
    5k bits per element in two rounds, 8 bits more if it is checked (``recast``: l' + 3k
    and 3). After a product, which is then reshared, 3l + 5k in three rounds instead of
    2l + l' + 3k. The error is the sum of three uniforms, in (-1.5, 1.5] ulp with mean
    2^-t / 2.

Security (semi-honest, one corrupted party)
    That of ``blocks.wraps``; the rest is local. The shares that a party ends with are
    uniform to it: the lowest l - t bits of two shares of x are, and the k bits above
    have those of w added, which are uniform. How y rounds follows from the cut bits of
    all three shares: what is said in ``recast`` of who learns y itself holds here too.
    If |x| < 2^(l-2) fails the result is wrong, but not revealing.

Security (one party that deviates, if it is proved)
    That of ``blocks.wraps``: no two honest parties can be made to hold different
    shares, and what they hold is what step 2 says, as all of it is local to them.

Source
    docs/explanation/protocols.md.
"""

from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import (
    FLAG_CLASSES,
    P0,
    P1,
    WRAP_FIELDS,
    beside,
    check_wraps,
    shared_wraps,
)
from ditto.protocols.cost import FREE, Cost
from ditto.protocols.party import Pair, PairSteps, Party, Role, Task, shares_in_parts
from ditto.protocols.recast import Conversion, lifted, recast_for_free
from ditto.sharing import Rank, Shared


def recast_in_place(
    party: Party, x: Shared, to: FxpType, *, checked: bool = False
) -> Shared:
    """Shares of the same values in another type. See the module's text."""
    return party.run_task(recast_in_place_task(x, to, checked=checked))


def recast_in_place_task(
    x: Shared, to: FxpType, *, checked: bool = False
) -> Task[Shared]:
    """The task of ``recast_in_place``."""
    conversion = Conversion(x.type, to)
    if conversion.is_free:
        return Task.done(recast_for_free(x, to))
    return shares_in_parts(
        x.flat,
        lambda role, shares: convert_in_place(role, shares, conversion, checked),
        lambda pair: lifted(*pair, conversion, x.shape),
    )


def recast_in_place_cost(
    count: int, source: FxpType, to: FxpType, *, checked: bool = False
) -> Cost:
    """5k bits per element in two rounds, and 8 if it is checked."""
    conversion = Conversion(source, to)
    if conversion.is_free:
        return FREE
    return Cost.of(count, in_place_widths(conversion, checked), 2)


def in_place_widths(conversion: Conversion, checked: bool) -> list[int]:
    """The widths of the fields that ``convert_in_place`` sends per element."""
    k = conversion.carry_width
    return [k] * WRAP_FIELDS + ([FLAG_CLASSES] if checked and k else [])


def in_place_rounds(conversion: Conversion) -> int:
    """The rounds of ``convert_in_place``."""
    return 2 if conversion.carry_width else 0


def convert_in_place(
    role: Role, shares: Pair, conversion: Conversion, checked: bool
) -> PairSteps:
    """Steps 0 to 3, of flat shares; the left shift is left out."""
    source, ring = conversion.source, conversion.target.ring
    bias = source.ring.scalar(conversion.bias)
    biased = [
        source.ring.reduce(share + bias) if whose == P0 else share
        for whose, share in zip(_ranks(role), shares, strict=True)
    ]
    first, second = (
        _cut(whose, share, conversion)
        for whose, share in zip(_ranks(role), biased, strict=True)
    )
    k = conversion.carry_width
    if not k:
        return first, second
    pair = biased[0], biased[1]
    wraps = shared_wraps(role, pair, source.bits, conversion.carry_ring)
    if checked:
        wraps = beside(wraps, check_wraps(role, pair, source.bits))
    up = ring.dtype.type(ring.bits - k)
    w_first, w_second = (w.astype(ring.dtype) << up for w in (yield from wraps))
    return ring.reduce(first - w_first), ring.reduce(second - w_second)


def _ranks(role: Role) -> tuple[Rank, Rank]:
    """Which shares a role holds."""
    return role.rank, role.rank.next


def _cut(whose: Rank, share: Words, conversion: Conversion) -> Words:
    """Step 2: round, floor or ceil of a share over 2^t, without the wraps."""
    ring, t = conversion.target.ring, conversion.cut
    cut = share >> share.dtype.type(t)
    if t and whose == P0:
        cut = cut + ((share >> share.dtype.type(t - 1)) & share.dtype.type(1))
    elif t and whose != P1:
        cut = cut + (share & share.dtype.type((1 << t) - 1) != 0)
    if whose == P0:
        return ring.reduce(ring.reduce(cut) - ring.scalar(conversion.bias >> t))
    return ring.reduce(cut)
