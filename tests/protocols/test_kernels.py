"""What a party multiplies alone: by C kernels and by XLA, in rings of every width."""

from collections.abc import Iterator

import numpy as np
import pytest

from ditto.fixedpoint import FxpType, Ring
from ditto.native import Level
from ditto.protocols import kernels
from ditto.protocols.kernels import (
    einsum_with,
    resident,
    ring_einsum_public,
    shared_einsum,
)
from ditto.sharing import Shared

EINSUMS = [
    ("sd,dk->sk", (5, 40), (40, 21)),
    ("hqd,hkd->hqk", (3, 7, 20), (3, 9, 20)),
    ("dk,sd->sk", (40, 21), (5, 40)),
    ("sd,d->sd", (5, 40), (40,)),  # sums nothing
]


@pytest.fixture(params=["C", "XLA"])
def _kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways, on a machine that has both."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "XLA":
            patch.setattr(kernels, "multiplies", lambda _: False)
            patch.setattr(kernels, "level", lambda: Level.XLA)
        yield


def exact(subscripts: str, x: np.ndarray, y: np.ndarray, ring: Ring) -> np.ndarray:
    wide = np.einsum(subscripts, x.astype(np.uint64), y.astype(np.uint64))
    return ring.reduce(wide.astype(ring.dtype))


def shared(rng: np.random.Generator, kind: FxpType, shape: tuple[int, ...]) -> Shared:
    first, second = (
        kind.ring.reduce(rng.integers(0, 1 << 63, shape).astype(kind.ring.dtype))
        for _ in range(2)
    )
    return Shared(first, second, kind)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("bits", [8, 13, 16, 24, 32])
@pytest.mark.parametrize(("subscripts", "left", "right"), EINSUMS)
@pytest.mark.parametrize("weight", ["none", "left", "right"])
def test_local_products_are_exact(
    bits: int,
    subscripts: str,
    left: tuple[int, ...],
    right: tuple[int, ...],
    weight: str,
) -> None:
    rng, kind = np.random.default_rng(bits), FxpType(bits, 2)
    x, y = shared(rng, kind, left), shared(rng, kind, right)
    x = resident(x) if weight == "left" else x
    y = resident(y) if weight == "right" else y
    expected = kind.ring.reduce(
        exact(subscripts, x.first, kind.ring.reduce(y.first + y.second), kind.ring)
        + exact(subscripts, x.second, y.first, kind.ring)
    )
    for _ in range(2):  # the second time what is kept is used
        product = shared_einsum(subscripts, x, y)
        np.testing.assert_array_equal(product, expected)
        assert product.flags.c_contiguous
    selected = einsum_with(subscripts, [x.first, x.second], y, ["second", "first"])
    expected = kind.ring.reduce(
        exact(subscripts, x.first, y.second, kind.ring)
        + exact(subscripts, x.second, y.first, kind.ring)
    )
    np.testing.assert_array_equal(selected, expected)
    public = ring_einsum_public(subscripts, x.first, y.first, kind.ring)
    np.testing.assert_array_equal(
        public, exact(subscripts, x.first, y.first, kind.ring)
    )


def test_a_weight_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels.level() == Level.XLA:
        pytest.skip("this installation has no C kernels")
    packed: list[str] = []
    pack = kernels.pack
    monkeypatch.setattr(kernels, "pack", lambda s, w: packed.append(s) or pack(s, w))
    rng, kind = np.random.default_rng(0), FxpType(32, 2)
    weight = resident(shared(rng, kind, (40, 21)))
    for subscripts, shape in (("bsd,dk->bsk", (2, 5, 40)), ("bd,dk->bk", (2, 40))):
        for _ in range(2):
            shared_einsum(subscripts, shared(rng, kind, shape), weight)
    assert packed == ["bsd,dk->bsk"] * 2  # its sum and its first share
