"""What each party does when ``ditto doctor`` asks whether it computes correctly."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from ditto.fixedpoint import FxpType, decode
from ditto.frames import Arrays, Json
from ditto.operations.spu import FXP_FRAC
from ditto.protocols import Party, matmul, product_type, reveal, share
from ditto.protocols.recast import Conversion
from ditto.runtime import Session, compile_region
from ditto.sharing import Rank, Shared, Stream


def random_shared(
    party: Party,
    shape: tuple[int, ...],
    type: FxpType,  # noqa: A002
    limit: int,
) -> Shared:
    """Shares of uniform integers below ``limit``, brought in by P0."""
    integers = None
    if party.rank == Rank.P0:
        size = int(np.prod(shape))
        drawn = Stream.private().open(0).draw("integers", size, type.ring)
        reduced = drawn.astype(np.int64) % (2 * limit - 1) - (limit - 1)
        integers = type.ring.reduce(reduced).reshape(shape)
    return share(party, integers, type, owner=Rank.P0, shape=shape)


def check_native(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """A square matmul with fused truncation against its plaintext."""
    kind = FxpType(bits=32, frac=12)
    return _check(
        session,
        parameters["size"],
        kind,
        lambda x, y: matmul(session.party, x, y, kind),
        ulps=1 + Conversion(product_type(kind, kind), kind).blur,
    )


def check_spu(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    """SPU's fixed-point matmul on one ring against its plaintext."""
    bits, size = parameters["bits"], parameters["size"]
    operands = [jnp.zeros((size, size), jnp.float32)] * 2
    region = compile_region(jnp.matmul, operands, bits=bits, name="matmul")

    def product(x: Shared, y: Shared) -> Shared:
        (result,) = session.runtimes.run(region, [x, y])
        if not isinstance(result, Shared):
            raise TypeError(f"SPU gave {type(result).__name__}, not shares.")
        return result

    return _check(session, size, FxpType(bits, FXP_FRAC[region.bits]), product)


def _check(
    session: Session,
    size: int,
    kind: FxpType,
    product: Callable[[Shared, Shared], Shared],
    *,
    ulps: float = 1.0,
) -> tuple[Json, Arrays]:
    """``ulps`` are what a truncation may be off."""
    party = session.party
    x, y = (random_shared(party, (size, size), kind, 1 << 8) for _ in range(2))
    result, left, right = (reveal(party, t) for t in (product(x, y), x, y))
    if result is None or left is None or right is None:
        raise RuntimeError("Revealed to all, yet nothing came.")
    exact = decode(left, kind) @ decode(right, kind)
    error = float(np.abs(decode(result, kind) - exact).max())
    return {"error": error, "allowed": 1.01 * ulps * kind.ulp}, {}
