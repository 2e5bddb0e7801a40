"""Runs of which some are audited, drawn by the client in secret."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ditto.audit.proof import Fault
from ditto.client import remote
from ditto.client.lots import deal_lots
from ditto.errors import (
    AuditError,
    BusyError,
    DisagreementError,
    PeerLostError,
    RequestError,
)
from ditto.party import running as party_running
from ditto.party.lots import is_drawn
from ditto.plan import Plan
from ditto.protocols.ledger import Ledger
from ditto.protocols.party import Party
from ditto.runtime import Session, auditing
from ditto.wire import RunReply
from ditto.wire.messages import Lot
from tests.audit.parties import deviate

from .running import Service, running, turn
from .toy import W, X, first

NEVER, ALWAYS = 1e-12, 1 - 1e-12
"""Chances of a lot that is drawn all the same."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Where some runs are to be audited."""
    folder = tmp_path_factory.mktemp("service")
    with running(
        folder, audit="products", audit_chance=0.5, states_per_client=64
    ) as service:
        yield service


def replies(service: Service, chance: float | None) -> list[RunReply]:
    return service.client(audit_chance=chance).call(service.runs(turn()))


@pytest.mark.parametrize(
    ("chance", "proved"), [(NEVER, False), (ALWAYS, True), (1, True)]
)
def test_all_three_prove_or_none(service: Service, chance: float, proved: bool) -> None:
    found = replies(service, chance)
    assert [reply.audit is not None for reply in found] == [proved] * 3


def test_the_agreed_chance_is_the_default(service: Service) -> None:
    proved = {replies(service, None)[0].audit is not None for _ in range(40)}
    assert proved == {False, True}  # else once in 5e11


def test_what_must_always_be_audited_is_not_drawn(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(tmp_path_factory.mktemp("strict"), audit="products") as strict:
        assert all(reply.audit is not None for reply in replies(strict, NEVER))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_party_that_deviates_is_caught_if_its_run_is_drawn(
    service: Service, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        altered = deviate(patch, rank)
        with pytest.raises(AuditError) as caught:
            replies(service, ALWAYS)
    assert altered == [True]
    domain = service.files.agreement.parties[rank].trust_domain
    assert domain in caught.value.suspects
    answer = service.ask(service.client(audit_chance=ALWAYS), turn())
    assert np.abs(answer - first(W, X)[0]).max() < 0.01
    with monkeypatch.context() as patch:
        altered = deviate(patch, rank)
        assert replies(service, NEVER)[0].audit is None
    assert altered == [True]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_party_that_tells_another_secret_is_named(
    service: Service, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(session: Session, lot: Lot) -> bool:
        if session.party.rank == rank:
            lot = replace(lot, secret=lot.secret[:1] + ("0" * 63))
        return is_drawn(session, lot)

    monkeypatch.setattr(party_running, "is_drawn", lying)
    with pytest.raises(AuditError) as caught:
        replies(service, NEVER)
    assert caught.value.suspects == service.files.agreement.parties[rank].trust_domain


def test_no_secret_is_told_before_its_owner_has_ended_all_steps(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = party_running.execute_plan
    ended, told = set[int](), set[int]()

    def ending(plan: Plan, session: Session, *rest: Any, **named: Any) -> Any:
        done = execute(plan, session, *rest, **named)
        ended.add(session.party.rank)
        return done

    def telling(session: Session, lot: Lot) -> bool:
        assert session.party.rank in ended
        told.add(session.party.rank)
        return is_drawn(session, lot)

    monkeypatch.setattr(party_running, "execute_plan", ending)
    monkeypatch.setattr(party_running, "is_drawn", telling)
    replies(service, NEVER)
    assert told == {0, 1, 2}


def test_nothing_is_proved_before_the_draw(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no part of the run: parties that prove know that it was drawn."""
    proofs = list[int]()
    prove = auditing.prove_ledger

    def proving(party: Party, ledger: Ledger) -> Fault | None:
        proofs.append(party.rank)
        return prove(party, ledger)

    monkeypatch.setattr(auditing, "PART", 1)
    monkeypatch.setattr(auditing, "prove_ledger", proving)
    replies(service, NEVER)
    assert not proofs
    replies(service, ALWAYS)
    assert sorted(proofs) == [0, 1, 2]
    replies(service, 1)
    assert len(proofs) > 2 * 3


def test_a_run_that_was_drawn_and_is_lost_is_drawn_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a party could deviate always, and leave whenever its run is drawn."""
    choices, left = iter([True]), list[bool]()

    def leaving(session: Session, lot: Lot) -> bool:
        if session.party.rank == 0 and not left:
            left.append(True)
            raise PeerLostError("The link was cut.", peer="org-b.example")
        return is_drawn(session, lot)

    monkeypatch.setattr(remote, "is_chosen", lambda _: next(choices, False))
    monkeypatch.setattr(party_running, "is_drawn", leaving)
    client = service.client(audit_chance=0.5)
    found = client.call(service.runs(turn()))
    assert left == [True]
    assert all(reply.audit is not None for reply in found)
    # what replaces the lost run may be more than one, and asked by another deployment:
    # with wide margins, or the rest of a text that is begun again
    assert client.call(service.runs(turn()))[0].audit is not None
    same = remote.RemoteDeployment(client._trios, time.monotonic() + 20)
    assert same.call(service.runs(turn()))[0].audit is not None
    limit = service.files.agreement.limits.deadline_seconds
    clock = time.monotonic
    monkeypatch.setattr(client._trios, "_clock", lambda: clock() + limit)
    assert same.call(service.runs(turn()))[0].audit is None
    other = service.client(audit_chance=0.5)
    assert other.call(service.runs(turn()))[0].audit is None


def test_a_run_that_was_drawn_and_has_ended_is_the_only_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = iter([True])
    monkeypatch.setattr(remote, "is_chosen", lambda _: next(choices, False))
    client = service.client(audit_chance=0.5)
    assert client.call(service.runs(turn()))[0].audit is not None
    assert client.call(service.runs(turn()))[0].audit is None


def test_a_run_that_was_drawn_and_refused_by_all_does_not_count(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody had begun, so nobody knew: a party that is busy is no reason."""
    choices, refused = iter([True]), list[bool]()
    together = remote.together

    def refusing(*jobs: Any, **options: Any) -> Any:
        if not refused:
            refused.append(True)
            raise BusyError("Full.", retry_after=0.01)
        return together(*jobs, **options)

    monkeypatch.setattr(remote, "is_chosen", lambda _: next(choices, False))
    monkeypatch.setattr(remote, "together", refusing)
    client = service.client(audit_chance=0.5)
    assert client.call(service.runs(turn()))[0].audit is not None
    assert client.call(service.runs(turn()))[0].audit is None


@pytest.mark.parametrize("part", [1, auditing.PART])
def test_a_client_that_gives_one_party_a_lot_holds_up_nobody(
    service: Service, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That party would prove nothing before the end, the others part by part."""
    monkeypatch.setattr(auditing, "PART", part)
    monkeypatch.setattr(
        remote, "deal_lots", lambda audited: [deal_lots(audited)[0], None, None]
    )
    started = time.monotonic()
    with pytest.raises(DisagreementError):
        replies(service, 0.5)
    assert time.monotonic() - started < 5
    assert [host.status().state for host in service.hosts] == ["ready"] * 3


def test_no_client_has_a_party_tell_what_looks_like_a_lie(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(audited: bool) -> list[Lot]:
        first_lot, *others = deal_lots(audited)
        return [replace(first_lot, secret="0" * 64), *others]

    monkeypatch.setattr(remote, "deal_lots", spoiled)
    with pytest.raises(RequestError, match="does not have its hash"):
        replies(service, 0.5)
    assert [host.status().state for host in service.hosts] == ["ready"] * 3
