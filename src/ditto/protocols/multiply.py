"""multiply, square, einsum, sum of squares: products, with or without a recast.

Steps
    1. Each party multiplies what it holds: z_i = x_i*y_i + x_i*y_{i+1} + x_{i+1}*y_i,
       for any bilinear *; then z0 + z1 + z2 = x*y.
    2. Without a recast, the z_i are reshared (``reshare``).
    3. With a recast fused in, P0 sends z0 - k0 and P2 sends z2 - k2 to P1, k0 and k2
       masks of P0 and P2 (``blocks.two_to_three``). Of the t bits that the recast cuts
       off the last d = t - 2 are left out. Now a = k0 + k2 is known to P0 and P2 and
       s = z1 + (z0 - k0) + (z2 - k2) to P1, and a + s = x*y, but for less than 2^d + 1:
       ``convert`` goes on. In an audited run these bits are sent too: what is proved
       is z0 and z2.
    4. With a provable recast instead, the z_i are reshared, and the recast is that of
       ``recast_in_place``: then every message is one that its sender can prove.
    5. With a recast to a ring so small that nothing carries (``Conversion.is_local``),
       the z_i are shifted where they are and reshared there. In an audited run they are
       reshared as they are, and the shares shifted.

Cost
    without a recast 3l bits per element of the result, one round; fused, 2(l - d) bits
    and one round more than ``convert``: 2(l - d) + l' + 3k in three rounds, with 4k in
    two, with 2k + 1 in four, and 3 bits more if the recast is checked; 2d more if the
    run is audited; 3l' in one round if nothing carries, 3l if the run is audited.
    Provable: 3l + 5k in three rounds, and 8 bits more if it is checked.
    The sums inside a dot product are local: only results cost.
    The error is that of the recast, and in step 3 up to a quarter of the last place
    more.

Security
    Step 1 is local, and so is what step 5 does before ``reshare`` or after it. In step
    3 P1 sees what ``two_to_three`` hides from it. a is a sum of masks, so it is
    independent of the data, and the rest is the argument of ``recast``. Step 4 is
    ``replicate`` and ``recast_in_place``.

Source
    docs/explanation/protocols.md; multiplication by Araki et al. (CCS 2016).
"""

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import (
    P0,
    P1,
    Group,
    Rounds,
    replicate,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.kernels import shared_einsum
from ditto.protocols.ledger import Claim, Factors
from ditto.protocols.party import (
    Pair,
    PairInstance,
    PairSteps,
    Party,
    Role,
    Task,
    in_parts,
)
from ditto.protocols.recast import (
    Conversion,
    convert,
    convert_rounds,
    convert_widths,
    lifted,
    shifted_share,
)
from ditto.protocols.recast_in_place import (
    convert_in_place,
    in_place_rounds,
    in_place_widths,
)
from ditto.protocols.reshare import reshare_cost, reshare_task
from ditto.sharing import Shared

Axis = int | tuple[int, ...]


def multiply(
    party: Party,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
    provable: bool = False,
) -> Shared:
    """Elementwise x*y, broadcast as numpy does."""
    return party.run_task(
        multiply_task(x, y, to, rounds, checked=checked, provable=provable)
    )


def multiply_task(
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
    provable: bool = False,
) -> Task[Shared]:
    """The task of ``multiply``, and of ``square`` if both are the same."""
    source = product_type(x.type, y.type)
    if x is y:
        z = _local_square(x)
    else:
        total = np.add(y.first, y.second)
        z = np.add(np.multiply(x.first, total), np.multiply(x.second, y.first))
    factors = Factors.elementwise(x, y)
    return product_task(
        np.asarray(z),
        source,
        to,
        rounds,
        checked=checked,
        provable=provable,
        factors=factors,
    )


def square(
    party: Party,
    x: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    provable: bool = False,
) -> Shared:
    """Elementwise x*x."""
    return party.run_task(multiply_task(x, x, to, rounds, provable=provable))


def sum_of_squares(
    party: Party,
    x: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    axis: Axis = -1,
    provable: bool = False,
) -> Shared:
    """The sum of x*x over ``axis``, kept as an axis of size one: costs per result."""
    z = _local_square(x).sum(axis=axis, keepdims=True, dtype=x.ring.dtype)
    source = product_type(x.type, x.type)
    factors = Factors.squares(x, axis if isinstance(axis, tuple) else (axis,))
    return party.run_task(
        product_task(z, source, to, rounds, provable=provable, factors=factors)
    )


def matmul(
    party: Party,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    provable: bool = False,
) -> Shared:
    """x @ y for matrices."""
    return einsum(party, "ij,jk->ik", x, y, to, rounds, provable=provable)


def einsum(
    party: Party,
    subscripts: str,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    provable: bool = False,
) -> Shared:
    """A contraction of two tensors: every batched dot product, in one step."""
    return party.run_task(einsum_task(subscripts, x, y, to, rounds, provable=provable))


def einsum_task(
    subscripts: str,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
    provable: bool = False,
) -> Task[Shared]:
    """The task of ``einsum``."""
    source, z = product_type(x.type, y.type), shared_einsum(subscripts, x, y)
    factors = Factors.of_einsum(x, y, subscripts)
    return product_task(
        z, source, to, rounds, checked=checked, provable=provable, factors=factors
    )


def product_type(x: FxpType, y: FxpType) -> FxpType:
    """The type of an untruncated product: fracs add."""
    if x.bits != y.bits:
        raise FixedPointTypeError(
            f"A product needs one ring, got {x} and {y}. Recast one of them first."
        )
    return FxpType(x.bits, x.frac + y.frac)


def product_cost(
    count: int,
    source: FxpType,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
    provable: bool = False,
    audited: bool = False,
) -> Cost:
    """Of ``count`` results whose untruncated type is ``source``."""
    if to is None:
        return reshare_cost(count, source)
    conversion = Conversion(source, to)
    if provable:
        widths = [source.bits] * 3 + in_place_widths(conversion, checked)
        return Cost.of(count, widths, 1 + in_place_rounds(conversion))
    if conversion.is_local:
        return reshare_cost(count, source if audited else to)
    sent = source.bits - (0 if audited else conversion.unseen)
    widths = [sent, sent, *convert_widths(conversion, rounds, checked)]
    return Cost.of(count, widths, 1 + convert_rounds(conversion, rounds))


def _local_square(x: Shared) -> Words:
    doubled = np.add(x.second, x.second)
    return np.asarray(np.multiply(x.first, np.add(x.first, doubled)))


def product_task(
    z: Words,
    source: FxpType,
    to: FxpType | None,
    rounds: Rounds,
    *,
    checked: bool = False,
    provable: bool = False,
    factors: Factors | None = None,
) -> Task[Shared]:
    """Steps 2 to 5: from what each party multiplied by itself to shares.

    Products of ``factors`` are noted for their proof, if the party has a ledger.
    """
    ring, shape, flat = source.ring, z.shape, z.reshape(-1)
    if to is None:
        return reshare_task(ring.reduce(z), source, factors)
    conversion = Conversion(source, to)
    if conversion.is_local and not provable:
        return _reshared_without_last_bits(ring.reduce(z), conversion, factors)

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            local = flat[part]
            if provable:
                group = Group(ring)
                pair = yield from replicate(role, local, group, "g", factors, part)
                return (yield from convert_in_place(role, pair, conversion, checked))
            masked = None if role.rank == P1 else local
            proved = factors is not None and role.record is not None
            dropped = 0 if proved else conversion.unseen
            pair = yield from two_to_three(
                role, masked, local.size, Group(ring), dropped=dropped
            )
            if factors is not None and role.record is not None:
                role.record(_claim(role, factors, part, local, pair))
            summand = two_party_summand(role, pair, ring, conversion.bias)
            if role.rank == P1:
                summand = ring.reduce(summand + local)
            return (yield from convert(role, summand, conversion, rounds, checked))

        return instance

    return in_parts(
        flat.size, instance_of, lambda pair: lifted(*pair, conversion, shape)
    )


def _reshared_without_last_bits(
    z: Words, conversion: Conversion, factors: Factors | None
) -> Task[Shared]:
    """Step 5."""
    source, target = conversion.source.ring, conversion.target.ring

    def instance(role: Role) -> PairSteps:
        if factors is not None and role.record is not None:
            pair = yield from replicate(role, z, Group(source), factors=factors)
            return shifted_share(pair[0], conversion), shifted_share(
                pair[1], conversion
            )
        return (yield from replicate(role, shifted_share(z, conversion), Group(target)))

    def finish(pair: Pair) -> Shared:
        return lifted(*pair, conversion, shape)

    shape, z = z.shape, z.reshape(-1)
    return Task([(instance, 0)], finish)


def _claim(
    role: Role, factors: Factors, part: slice, local: Words, pair: Pair
) -> Claim:
    """Of step 3: z0 = (z0 - k0) + k0 and z2 = (z2 - k2) + k2; P1 sends nothing."""
    ring = factors.x.ring
    if role.rank == P1:
        of_z0, of_z2 = pair
        return Claim(factors, part, False, ahead=of_z2, behind=of_z0)
    if role.rank == P0:
        masks, hidden = pair
        k2 = ring.reduce(masks - (local - hidden))
        return Claim(factors, part, True, ahead=None, behind=k2)
    hidden, masks = pair
    k0 = ring.reduce(masks - (local - hidden))
    return Claim(factors, part, True, ahead=k0, behind=None)
