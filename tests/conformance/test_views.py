"""What each party sees is uniform and independent of the secret."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ditto.protocols.party import Exchange, Expected, Field, Pair, Party, Role, Steps
from ditto.protocols.registry import PROTOCOLS, ROWS, Protocol
from ditto.runtime import ThreadTrio, Trio
from ditto.sharing import Rank, Shared

from .parties import record_view
from .statistics import REFUSE_BELOW, View, are_alike, is_uniform, leaks

RUNS = 6  # roles rotate with the step: each party plays each role twice
ROWS_OF_A_RUN = 1700
"""Most rows are cut in parts at this size, with all roles in each run."""
MANY_BITS = 1 << 14
"""Of a row of operands: there are fewer rows then, and no less to look at."""
Who = tuple[int, tuple[int, ...]]
CASES = [
    pytest.param(row, id=row.key)
    for row in PROTOCOLS
    if row.cost(*row.shapes(1)).bits > 0
]


def views(trio: Trio, row: Protocol, secrets: list[int]) -> dict[Who, View]:
    """The views of (party, its roles), over several runs on constant tensors."""
    gathered: dict[Who, dict] = defaultdict(lambda: defaultdict(list))
    widths: dict[tuple[Who, str], int] = {}
    is_large = row.work > 16 or row.cost(*row.shapes(1)).bits > MANY_BITS
    rows = 200 if is_large else ROWS_OF_A_RUN
    for _ in range(RUNS):
        plain = [
            np.full(shape, x)
            for x, shape in zip(secrets, row.shapes(rows), strict=True)
        ]
        arrays = row.deal(plain)
        replies = trio.call(record_view, {"key": row.key}, arrays)
        for rank, (seen, values) in enumerate(replies):
            who = (rank, tuple(seen["roles"]))
            for i, (name, width) in enumerate(seen["view"]):
                gathered[who][name].append(values[str(i)])
                widths[who, name] = width
    return {
        who: {
            name: (widths[who, name], np.concatenate(found))
            for name, found in fields.items()
        }
        for who, fields in gathered.items()
    }


@pytest.mark.parametrize("row", CASES)
def test_views_reveal_nothing(trio: Trio, row: Protocol) -> None:
    low, high = row.domain
    seen = views(trio, row, [low] * len(row.operands))
    other = views(trio, row, [high] * len(row.operands))
    assert seen.keys() == other.keys()
    for who in seen:
        assert leaks(seen[who], other[who]) == [], f"party and roles {who}"


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_the_statistics_are_those_of_scipy(bits: int) -> None:
    rng, refused = np.random.default_rng(bits), 0
    for skew in np.linspace(0, 0.5, 60):
        even, other = (
            np.bincount((rng.random(20_000) ** (1 + s) * 2**bits).astype(int))
            for s in (0, skew)
        )
        uniform = stats.chisquare(other).pvalue >= REFUSE_BELOW
        assert is_uniform(other) == uniform
        compared = stats.chi2_contingency([even, other], correction=False)
        assert are_alike(even, other) == (compared.pvalue >= REFUSE_BELOW)
        refused += not uniform
    assert 10 < refused < 55


def _leaky(party: Party, x: Shared) -> Shared:
    """The recast's product with one mask for both messages, as it must not be done."""

    def instance(role: Role) -> Steps[Pair]:
        n, ring = x.size, x.ring
        bit = (x.first.reshape(-1) >> np.uint32(31)).astype(ring.dtype)
        if role.rank == Rank.P1:
            yield Exchange(receive={p: [Expected(n, 32)] for p in (Rank.P0, Rank.P2)})
            return x.first, x.second
        shared = role.masks_with(Rank.P2 if role.rank == Rank.P0 else Rank.P0)
        m = shared.draw("m", n, ring)
        yield Exchange(send={Rank.P1: [Field(bit * m - m, 32)]})
        return x.first, x.second

    party.run(instance)
    return x


def test_the_statistic_finds_a_reused_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = next(row for row in PROTOCOLS if row.name == "negate")
    row = replace(honest, name="leaky", run=_leaky, shapes=lambda m: ((m, 5),))
    monkeypatch.setitem(ROWS, row.key, row)
    with ThreadTrio() as trio:
        seen = views(trio, row, [5])
        other = views(trio, row, [-5])
    found = [leak for who in seen for leak in leaks(seen[who], other[who])]
    assert any("received" in leak for leak in found)
