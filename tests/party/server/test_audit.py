"""Runs that a service audits: those whose client asks for it, or all of them."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ditto.errors import AuditError, DisagreementError, PeerLostError
from ditto.party.server.lane import Lane
from ditto.party.server.queue import Ticket
from ditto.party.store import State
from ditto.plan import AUDITS, stricter
from ditto.runtime import Session, auditing
from ditto.wire import RunReply
from tests.audit.parties import deviate

from .running import Service, running, turn, until
from .toy import W, X, first


@pytest.fixture(scope="module", params=AUDITS)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    options = {"provable": True, "states_per_client": 64}
    with running(folder, audit=request.param, **options) as service:
        yield service


def _replies(service: Service, audit: str) -> list[RunReply]:
    client = service.client(audit=audit)  # type: ignore[arg-type]
    return client.call(service.runs(turn()))


@pytest.mark.parametrize("asked", AUDITS)
def test_what_the_agreement_or_the_client_asks_for(
    service: Service, asked: str
) -> None:
    due = stricter(service.files.agreement.audit, asked)  # type: ignore[arg-type]
    replies = _replies(service, asked)
    assert [reply.audit is not None for reply in replies] == [due != "off"] * 3


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_party_that_deviates_answers_nothing_and_is_not_asked_again(
    service: Service, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered = deviate(monkeypatch, rank)
    with pytest.raises(AuditError) as caught:
        _replies(service, "products")
    assert altered == [True]
    organisation = service.files.agreement.parties[rank].trust_domain
    assert organisation in caught.value.suspects
    parties = [party.trust_domain for party in service.files.agreement.parties]
    honest = [name for k, name in enumerate(parties) if k != rank]
    assert any(f"{name} reports: " in str(caught.value) for name in honest)
    monkeypatch.undo()
    answer = service.ask(service.client(audit="products"), turn())
    assert np.abs(answer - first(W, X)[0]).max() < 0.01


def test_an_early_word_of_a_loss_hides_no_failed_proof(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party that deviated tells its client that the run was lost; proofs take longer
    than a client waits after other failures."""
    altered = deviate(monkeypatch, 0)
    tickets: list[Ticket] = []
    run, prove = Lane._run, auditing.prove

    def noting(lane: Lane, ticket: Ticket, state: State) -> None:
        if lane._setup.rank == 0:
            tickets.append(ticket)
        run(lane, ticket, state)

    def slow(session: Session) -> Any:
        if session.party.rank == 0:
            lost = PeerLostError("The link was cut.", peer="org-b.example")
            assert tickets[0].end(lost)
        time.sleep(1.5)
        return prove(session)

    monkeypatch.setattr(Lane, "_run", noting)
    monkeypatch.setattr(auditing, "prove", slow)
    with pytest.raises(AuditError):
        _replies(service, "products")
    assert altered == [True]
    assert len(tickets) == 1  # nothing was asked again


@pytest.mark.parametrize("part", [1, auditing.PART])
def test_different_shares_end_a_run_at_all_parties_and_no_link(
    service: Service, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a client that deals P0 and P1 different ones; P2 sees none of them. That is
    found before a proof fails because of it, and says who was to blame."""
    monkeypatch.setattr(auditing, "PART", part)
    service.ask(service.client(), turn())  # the links are up
    runs = service.runs(turn())
    name = max(runs[0].arrays)
    runs[0].arrays[name] = runs[0].arrays[name] + np.uint32(1)
    started = time.monotonic()
    with pytest.raises(DisagreementError):
        service.client(audit="products").call(runs)
    assert time.monotonic() - started < 10
    assert [host.status().state for host in service.hosts] == ["ready"] * 3
    # the client has heard of all three before the last of them has counted it as over
    until(lambda: not any(host.status().running for host in service.hosts))
