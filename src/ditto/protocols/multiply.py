"""multiply, square, einsum, sum of squares: products, with or without a recast.

Steps
    1. Each party multiplies what it holds: z_i = x_i*y_i + x_i*y_{i+1} + x_{i+1}*y_i,
       for any bilinear *; then z0 + z1 + z2 = x*y.
    2. Without a recast, the z_i are reshared (``reshare``).
    3. With a recast fused in, P0 sends z0 - k0 and P2 sends z2 - k2 to P1, k0 and k2
       masks of P0 and P2 (``blocks.two_to_three``). Now a = k0 + k2 is known to P0 and
       P2 and s = z1 + (z0 - k0) + (z2 - k2) to P1, and a + s = x*y: ``convert`` goes
       on.

Cost
    without a recast 3l bits per element of the result, one round; fused, 2l bits and
    one round more than ``convert``: 2l + l' + 3k in three rounds, 2l + l' + 4k in two,
    and 3 bits more if the recast is checked.
    The sums inside a dot product are local: only results cost.

Security
    Step 1 is local. In step 3 P1 sees what ``two_to_three`` hides from it. a is a sum
    of masks, so it is independent of the data, and the rest is the argument of
    ``recast``.

Source
    docs/explanation/protocols.md; multiplication by Araki et al. (CCS 2016).
"""

import numpy as np

from ditto.errors import FixedPointTypeError
from ditto.fixedpoint import FxpType, Words
from ditto.protocols.blocks import (
    P1,
    Group,
    Rounds,
    two_party_summand,
    two_to_three,
)
from ditto.protocols.cost import Cost
from ditto.protocols.kernels import shared_einsum
from ditto.protocols.party import PairInstance, PairSteps, Party, Role, Task, in_parts
from ditto.protocols.recast import (
    Conversion,
    convert,
    convert_rounds,
    convert_widths,
    lifted,
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
) -> Shared:
    """Elementwise x*y, broadcast as numpy does."""
    return party.run_task(multiply_task(x, y, to, rounds, checked=checked))


def multiply_task(
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Task[Shared]:
    """The task of ``multiply``, and of ``square`` if both are the same."""
    source = product_type(x.type, y.type)
    if x is y:
        return product_task(_local_square(x), source, to, rounds, checked=checked)
    total = np.add(y.first, y.second)
    z = np.add(np.multiply(x.first, total), np.multiply(x.second, y.first))
    return product_task(np.asarray(z), source, to, rounds, checked=checked)


def square(
    party: Party, x: Shared, to: FxpType | None = None, rounds: Rounds = 2
) -> Shared:
    """Elementwise x*x."""
    return party.run_task(multiply_task(x, x, to, rounds))


def sum_of_squares(
    party: Party,
    x: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    axis: Axis = -1,
) -> Shared:
    """The sum of x*x over ``axis``, kept as an axis of size one: costs per result."""
    z = _local_square(x).sum(axis=axis, keepdims=True, dtype=x.ring.dtype)
    return party.run_task(product_task(z, product_type(x.type, x.type), to, rounds))


def matmul(
    party: Party, x: Shared, y: Shared, to: FxpType | None = None, rounds: Rounds = 2
) -> Shared:
    """x @ y for matrices."""
    return einsum(party, "ij,jk->ik", x, y, to, rounds)


def einsum(
    party: Party,
    subscripts: str,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
) -> Shared:
    """A contraction of two tensors: every batched dot product, in one step."""
    return party.run_task(einsum_task(subscripts, x, y, to, rounds))


def einsum_task(
    subscripts: str,
    x: Shared,
    y: Shared,
    to: FxpType | None = None,
    rounds: Rounds = 2,
    *,
    checked: bool = False,
) -> Task[Shared]:
    """The task of ``einsum``."""
    source, z = product_type(x.type, y.type), shared_einsum(subscripts, x, y)
    return product_task(z, source, to, rounds, checked=checked)


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
) -> Cost:
    """Of ``count`` results whose untruncated type is ``source``."""
    if to is None:
        return reshare_cost(count, source)
    conversion = Conversion(source, to)
    widths = [source.bits, source.bits, *convert_widths(conversion, rounds, checked)]
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
) -> Task[Shared]:
    """Steps 2 and 3: from what each party multiplied by itself to shares."""
    ring, shape, flat = source.ring, z.shape, z.reshape(-1)
    if to is None:
        return reshare_task(ring.reduce(z), source)
    conversion = Conversion(source, to)

    def instance_of(part: slice) -> PairInstance:
        def instance(role: Role) -> PairSteps:
            local = flat[part]
            masked = None if role.rank == P1 else local
            pair = yield from two_to_three(role, masked, local.size, Group(ring))
            summand = two_party_summand(role, pair, ring, conversion.bias)
            if role.rank == P1:
                summand = ring.reduce(summand + local)
            return (yield from convert(role, summand, conversion, rounds, checked))

        return instance

    return in_parts(
        flat.size, instance_of, lambda pair: lifted(*pair, conversion, shape)
    )
