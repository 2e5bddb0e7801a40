"""Recasts inside of steps: of a product, a row that was found, or by themselves."""

import jax.numpy as jnp

from ditto.fixedpoint import FxpType
from ditto.protocols.recast import Conversion
from ditto.steps.base import Arithmetic, Cells, Numbers, Place


def target_of(source: FxpType, target: FxpType) -> FxpType | None:
    """The type to recast to, None if there is nothing to do."""
    return None if source == target else target


def convert(
    x: Numbers, source: FxpType, target: FxpType, index: int, arithmetic: Arithmetic
) -> Numbers:
    """Integers after a recast in step ``index``."""
    if source == target:
        return x
    conversion = Conversion(source, target)
    if conversion.carry_width:
        place = Place.of(index, source)
        x = arithmetic.noted(x, place, [Cells.of_recast(source)])
    if conversion.cut:
        x = arithmetic.cut(x, conversion.cut, index)
    return x * 2.0**conversion.lift


def converted_error(
    e: Numbers,
    source: FxpType,
    target: FxpType,
    *,
    fused: bool,
    provable: bool = False,
) -> Numbers:
    """After a recast: both sides round to one of two neighbours, or of three when the
    shares are shifted where they are, or when a product sends no more bits than its
    recast needs."""
    if source == target:
        return e
    conversion = Conversion(source, target)
    if conversion.cut:
        three = conversion.is_local or provable or (fused and conversion.unseen)
        own = 2.0 if three else 1.0
        e = e * 2.0**-conversion.cut
        e = jnp.where(e > 0, jnp.floor(e) + 1 + own, own)
    return e * 2.0**conversion.lift
