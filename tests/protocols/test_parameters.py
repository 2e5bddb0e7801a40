"""What protocols refuse, and the local ones with parameters of their own."""

import numpy as np
import pytest

from ditto.errors import FixedPointTypeError, ShareConsistencyError
from ditto.fixedpoint import FxpType, decode, encode
from ditto.protocols import (
    FREE,
    add,
    lift,
    product_type,
    recast_cost,
)
from ditto.protocols.recast import Conversion
from ditto.sharing import Revealed, add_summands, combine, deal


def fxp(bits: int, frac: int) -> FxpType:
    return FxpType(bits=bits, frac=frac)


def test_a_recast_cannot_cut_everything() -> None:
    with pytest.raises(FixedPointTypeError, match="cuts 31 bits; at most bits - 2"):
        Conversion(fxp(32, 31), fxp(32, 0))


def test_products_and_sums_need_one_ring() -> None:
    with pytest.raises(FixedPointTypeError, match=r"fxp32\.12 and fxp64\.18"):
        product_type(fxp(32, 12), fxp(64, 18))
    low, high = (
        deal(np.zeros(2, t.ring.dtype), t)[0] for t in (fxp(32, 1), fxp(64, 1))
    )
    with pytest.raises(FixedPointTypeError, match="one ring"):
        add(low, high)


def test_a_sum_takes_the_finer_frac() -> None:
    coarse, fine = fxp(32, 4), fxp(32, 10)
    xs, ys = (deal(encode([1.5, -2.25], t), t) for t in (coarse, fine))
    sums = [add(x, y) for x, y in zip(xs, ys, strict=True)]
    assert sums[0].type == fine
    assert decode(combine(sums), fine).tolist() == [3.0, -4.5]
    with pytest.raises(FixedPointTypeError, match="recast it instead"):
        lift(ys[0], frac=4)


def test_a_client_needs_three_summands_of_one_shape() -> None:
    words = np.zeros(3, np.uint32)
    part = Revealed.of(words, words)
    assert add_summands([part] * 3, fxp(32, 0)).tolist() == [0, 0, 0]
    with pytest.raises(ShareConsistencyError, match="three summands"):
        add_summands([part, part], fxp(32, 0))


def test_the_figures_of_the_design() -> None:
    """Bits per element of a large tensor, as docs/explanation/protocols.md says."""
    n = 8 * 3000
    figures = {
        (fxp(32, 24), fxp(32, 12)): (68, 80),
        (fxp(32, 20), fxp(32, 12)): (56, 64),
        (fxp(64, 36), fxp(64, 18)): (118, 136),
        (fxp(32, 8), fxp(64, 18)): (160, 192),
        (fxp(32, 20), fxp(64, 18)): (166, 200),
    }
    for (source, to), (two, one) in figures.items():
        assert recast_cost(n, source, to, 2).bits == two * n
        assert recast_cost(n, source, to, 1).bits == one * n
    assert recast_cost(n, fxp(64, 18), fxp(32, 8)) == FREE
