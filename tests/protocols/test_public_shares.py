"""Shares of what is public, as masks leave them, are recast without a bias."""

from typing import Any

import jax
import numpy as np
import pytest

from ditto.api.local import run_local
from ditto.compiler import compile
from ditto.fixedpoint import FxpType, decode, encode
from ditto.frames import Arrays, Json
from ditto.protocols import recast
from ditto.runtime import Session, ThreadTrio
from ditto.sharing import Rank, Shared, combine

VALUES = np.array([0.0, 0.25, -0.25, 0.3, 0.7, -0.7, 3.2, -3.9, 100.49, -100.51])
CASES = [
    (FxpType(32, 16), FxpType(32, 4), 2),
    (FxpType(32, 16), FxpType(32, 4), 1),
    (FxpType(32, 16), FxpType(64, 8), 2),
    (FxpType(64, 30), FxpType(32, 4), 2),  # shifted where they are
]


def recast_public(session: Session, parameters: Json, _: Arrays) -> tuple[Json, Arrays]:
    source, target, rounds = CASES[parameters["case"]]
    integers = encode(VALUES, source)
    nothing, rank = np.zeros_like(integers), session.party.rank
    first = integers if rank == Rank.P0 else nothing
    shared = Shared(first, integers if rank == Rank.P2 else nothing, source)
    got = recast(session.party, shared, target, rounds=rounds)
    return {}, {"first": got.first, "second": got.second}


@pytest.mark.parametrize("case", range(len(CASES)))
def test_they_are_rounded_to_nearest(case: int) -> None:
    _, target, _ = CASES[case]
    with ThreadTrio() as trio:
        replies = trio.call(recast_public, {"case": case})
    shares = [Shared(a["first"], a["second"], target) for _, a in replies]
    got = decode(combine(shares), target)
    assert np.abs(got - VALUES).max() <= 0.5 * target.ulp + 2**-17
    assert got[0] == 0


def test_hidden_rows_add_nothing_to_a_mean() -> None:
    """250 zeros that a mask left were 250 last places."""

    def mean(x: jax.Array, mask: jax.Array) -> jax.Array:
        return (x * mask[:, None]).sum(0) / mask.sum()

    rng = np.random.default_rng(0)

    def sample(count: int) -> Any:
        mask = (np.arange(256) < count).astype(np.float32)
        return rng.normal(size=(256, 32)).astype(np.float32), mask

    samples = [sample(n) for n in (3, 20, 256)]
    plan = compile(mean, samples[0], calibration=samples, public_argnums=(1,))
    for count in (3, 20, 256):
        x, mask = sample(count)
        got = run_local(plan, (x, mask)).result
        assert np.abs(got - np.asarray(mean(x, mask))).max() < 0.002, count
