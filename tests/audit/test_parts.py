"""Long runs are proved in parts: the same answers, or an error in the part it is of."""

import numpy as np
import pytest

from ditto.api.local import run_local
from ditto.audit import prove_ledger
from ditto.audit.proof import Fault
from ditto.errors import AuditError
from ditto.plan import Plan
from ditto.protocols.ledger import Ledger
from ditto.protocols.party import Party
from ditto.runtime import NAMES, ThreadTrio, auditing
from ditto.sharing import RANKS, Rank

from .conftest import A, B, computed
from .parties import change_message, deviate


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rank, int]]:
    """Of each proof whose it is, and how many claims it is of."""
    noted: list[tuple[Rank, int]] = []

    def proving(party: Party, ledger: Ledger) -> Fault | None:
        claims = sum(len(product) for product in ledger.products())
        noted.append((party.rank, claims + len(ledger.wraps())))
        return prove_ledger(party, ledger)

    monkeypatch.setattr(auditing, "prove_ledger", proving)
    return noted


def test_a_part_ends_when_enough_was_computed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not auditing.part_ends(plan)
    groups = plan.round_groups()
    talking = [g for g in groups if plan.steps[g[0]].kind.interactive]
    sizes = [
        sum(plan.values[v].size for i in group for v in plan.steps[i].outputs)
        for group in talking
    ]
    monkeypatch.setattr(auditing, "PART", sizes[0] + 1)
    assert min(auditing.part_ends(plan)) > talking[1][0]
    monkeypatch.setattr(auditing, "PART", sizes[0])
    assert talking[0][-1] < min(auditing.part_ends(plan)) <= talking[1][0]


@pytest.mark.parametrize("audit", ["products", "full"])
def test_parts_prove_all_that_a_whole_run_does(
    audit: str,
    trio: ThreadTrio,
    plan: Plan,
    proved: list[tuple[Rank, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = run_local(plan, (A, B), trio=trio, audit=audit)  # type: ignore[arg-type]
    at_once = proved.copy()
    assert sorted(rank for rank, _ in at_once) == [*RANKS]
    proved.clear()
    monkeypatch.setattr(auditing, "PART", 1)
    parts = run_local(plan, (A, B), trio=trio, audit=audit)  # type: ignore[arg-type]
    assert np.abs(parts.result - computed(A, B)).max() < 0.05
    assert len(proved) > 2 * len(at_once)
    for rank, claims in at_once:
        assert sum(n for whose, n in proved if whose == rank) == claims
    assert [s.bytes for s in parts.steps[:-1]] == [s.bytes for s in whole.steps[:-1]]
    assert [s.rounds for s in parts.steps[:-1]] == [s.rounds for s in whole.steps[:-1]]
    assert parts.steps[-1].rounds >= len(proved) // 3 * 5
    assert parts.steps[-1].bytes > whole.steps[-1].bytes


def test_a_run_ends_with_the_part_in_which_a_party_deviated(
    trio: ThreadTrio,
    plan: Plan,
    proved: list[tuple[Rank, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditing, "PART", 1)
    deviate(monkeypatch, 1)
    with pytest.raises(AuditError) as caught:
        run_local(plan, (A, B), trio=trio, audit="products")
    assert NAMES[1] in caught.value.suspects
    assert sorted(rank for rank, _ in proved) == [*RANKS]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("at", range(0, 45, 3))
def test_whatever_a_party_changes_is_caught_in_parts_too(
    rank: Rank, at: int, trio: ThreadTrio, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of a step or of a proof; it goes on with what it has sent."""
    altered = change_message(monkeypatch, rank, at)
    monkeypatch.setattr(auditing, "PART", 1)
    try:
        run_local(plan, (A, B), trio=trio, audit="full")
        caught = False
    except AuditError as error:
        caught = NAMES[rank] in error.suspects
    assert caught == bool(altered)
