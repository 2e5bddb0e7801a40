"""The parties of a deployment, asked over a network within a deadline.

A run is asked of all three parties of a trio at once. What is lost to a party that is
gone, or refused by one that is busy, is asked again while there is time: with a new
request id, so with new masks, and of another trio if there is one. A text whose trio is
gone with its state is begun again elsewhere. What a party refuses for good is not asked
again.

Nor is a run whose proofs failed. A party that deviated could say that the run was lost
before the others say that; so who asked for proofs waits for all parties that have
begun. A run that was drawn to be audited and is lost is drawn again: else a party might
deviate always, and leave when its run is drawn. What replaces it need not be one run:
with wide margins it is asked anew, and a text whose state is gone is begun again. So
once a drawn run is lost that a party has begun, all runs are audited for as long as any
question may last that was under way: whatever replaces it ends before.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from ditto.client.connection import PartyConnection, seconds_left
from ditto.client.lots import deal_lots, is_chosen
from ditto.errors import (
    AuditError,
    BusyError,
    DittoError,
    MessageError,
    PeerError,
    PeerIdentityError,
    StateLostError,
    UnknownModelError,
)
from ditto.plan import Audit, stricter
from ditto.trust import Credentials
from ditto.wire import Deployment, DropState, OnProgress, Request, RunPlan, Turn
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import ServiceStatus
from ditto.wire.messages import Lot, ReplyT, decode_reply, encode
from ditto.wire.methods import CALL

Parties = tuple[PartyConnection, PartyConnection, PartyConnection]
_GRACE = 1.0
"""Seconds in which the other parties may say why a run failed, after one has."""
_BACKOFF = (0.2, 0.4, 0.8, 1.5, 2.0)
_DROP_SECONDS = 5.0
_MOVES_AFTER = 2
"""Attempts to continue a state, after which it is given up if there is another trio."""


class Trios:
    """The connections to all trios of a deployment, made when they are first used, and
    again when the certificate was renewed.

    Calls under way end on the connections of the certificate before.
    """

    def __init__(
        self,
        agreement: Agreement,
        credentials: Credentials,
        audit: Audit = "off",
        audit_chance: float | None = None,
    ) -> None:
        self.agreement, self.audit = agreement, stricter(audit, agreement.audit)
        self.audit_chance = (
            agreement.audit_chance if audit_chance is None else audit_chance
        )
        self._credentials = credentials
        self._lock = threading.Lock()
        self._connected: dict[int, Parties] = {}
        self._before: list[Parties] = []
        self._closed = False
        self._clock = time.monotonic
        self._audited_until = self._clock()

    @property
    def audits_all(self) -> bool:
        """Whether no run is left to chance now."""
        return self._clock() < self._audited_until

    def note_lost_draw(self) -> None:
        """A run that was drawn to be audited was lost, when parties may have known."""
        longest = self.agreement.limits.deadline_seconds
        self._audited_until = self._clock() + longest

    def parties(self, trio: int) -> Parties:
        """The three parties of a trio."""
        with self._lock:
            if self._closed:
                raise PeerError("This client was closed.", peer="client")
            self._renew()
            if trio not in self._connected:
                p0, p1, p2 = (
                    PartyConnection(self.agreement, self._credentials, rank, trio)
                    for rank in range(3)
                )
                self._connected[trio] = (p0, p1, p2)
            return self._connected[trio]

    def _renew(self) -> None:
        renewed = self._credentials.renewed()
        if renewed is not self._credentials:
            _close(self._before)
            self._before = list(self._connected.values())
            self._connected.clear()
            self._credentials = renewed

    def choose(self, avoiding: int | None = None) -> int:
        """A trio: of two drawn at random, the one where fewer requests wait."""
        every = [trio for trio in range(self.agreement.trios) if trio != avoiding]
        drawn = random.sample(every, min(2, len(every)))
        if len(drawn) < 2:
            return drawn[0] if drawn else 0
        return min(drawn, key=self._load)

    def _load(self, trio: int) -> float:
        try:
            status = self.parties(trio)[0].status(timeout=2.0)
        except DittoError:
            return float("inf")
        busy = status.running + status.waiting
        return float(busy) if status.state == "ready" else float("inf")

    def statuses(self, trio: int, timeout: float) -> list[ServiceStatus]:
        """How the three parties of a trio are."""
        return together(
            [lambda p=party: p.status(timeout) for party in self.parties(trio)]  # type: ignore[misc]
        )

    def close(self) -> None:
        """Let all connections go."""
        with self._lock:
            self._closed = True
            connected = [*self._before, *self._connected.values()]
            self._before.clear()
            self._connected.clear()
        _close(connected)


def _close(connected: Sequence[Parties]) -> None:
    for parties in connected:
        for party in parties:
            party.close()


class RemoteDeployment(Deployment):
    """Three parties, for one question or one text, until a deadline."""

    def __init__(self, trios: Trios, deadline: float, trio: int | None = None) -> None:
        self._trios, self._deadline = trios, deadline
        self._trio = trios.choose() if trio is None else trio
        self._renamed: dict[str, str] = {}
        self._drawn = False
        """Whether a run was drawn to be audited and has not ended."""

    @property
    def generation(self) -> int:
        """See Deployment: what parties keep is on their disks."""
        return 0

    def call(
        self,
        requests: Sequence[Request[ReplyT]],
        on_progress: OnProgress | None = None,
    ) -> list[ReplyT]:
        """See Deployment."""
        if all(isinstance(request, DropState) for request in requests):
            return self._drop(requests)
        attempt = 0
        elsewhere = self._trios.agreement.trios - 1
        while True:
            try:
                replies = self._call_once(self._fresh(requests), on_progress)
                self._drawn = False
                return replies
            except (PeerError, BusyError, UnknownModelError) as error:
                if isinstance(error, UnknownModelError):
                    if not elsewhere or not _is_stateless(requests):
                        raise
                    elsewhere -= 1  # trios may differ while models or releases change
                pause = _pause(error, attempt)
                in_time = time.monotonic() + pause < self._deadline
                if isinstance(error, PeerIdentityError) or not in_time:
                    raise
                attempt += 1
                self._rename(requests)
                if _is_stateless(requests):
                    self._trio = self._trios.choose(avoiding=self._trio)
                elif self._moves(error, attempt):
                    raise StateLostError from None
                time.sleep(pause)

    def _moves(self, error: DittoError, attempt: int) -> bool:
        """Whether a state is given up, so that its text is begun again elsewhere."""
        alone = self._trios.agreement.trios == 1
        if alone or attempt < _MOVES_AFTER or not isinstance(error, PeerError):
            return False
        self._trio = self._trios.choose(avoiding=self._trio)
        return True

    def _drop(self, requests: Sequence[Request[ReplyT]]) -> list[ReplyT]:
        """States that cannot be dropped now expire; that is no error of the answer."""
        self._deadline = max(self._deadline, time.monotonic() + _DROP_SECONDS)
        try:
            return self._call_once(self._fresh(requests), None)
        except DittoError:
            return []

    def _fresh(self, requests: Sequence[Request[ReplyT]]) -> list[Request[ReplyT]]:
        """The same requests with one new request id, in the conversation's new name."""
        request_id, trios = uuid.uuid4().hex, self._trios
        lots: Sequence[Lot | None] = [None] * len(requests)
        runs = any(isinstance(request, RunPlan) for request in requests)
        if runs and trios.audit != "off" and trios.audit_chance < 1:
            certain = self._drawn or trios.audits_all
            self._drawn = certain or is_chosen(trios.audit_chance)
            lots = deal_lots(self._drawn)
        return [
            self._with_id(request, request_id, lot)
            for request, lot in zip(requests, lots, strict=True)
        ]

    def _with_id(self, request: Any, request_id: str, lot: Lot | None) -> Any:
        if isinstance(request, DropState):
            name = self._renamed.get(request.conversation, request.conversation)
            return DropState(name)
        if isinstance(request, RunPlan):
            turn = request.turn
            if turn is not None:
                name = self._renamed.get(turn.conversation, turn.conversation)
                turn = Turn(name, turn.number)
            return replace(
                request,
                turn=turn,
                request_id=request_id,
                audit=self._trios.audit,
                lot=lot,
            )
        return request

    def _rename(self, requests: Sequence[Request[ReplyT]]) -> None:
        """A conversation whose first run failed begins again under another name: some
        party may have kept its state."""
        for request in requests:
            if isinstance(request, RunPlan) and request.turn is not None:
                if request.turn.number == 0:
                    self._renamed[request.turn.conversation] = uuid.uuid4().hex
                return

    def _call_once(
        self, requests: Sequence[Request[ReplyT]], on_progress: OnProgress | None
    ) -> list[ReplyT]:
        parties = self._trios.parties(self._trio)
        cancels: list[Callable[[], Any]] = []
        begun: set[int] = set()

        def ask(rank: int) -> ReplyT:
            def on_part(progress: Any) -> None:
                begun.add(rank)
                if on_progress is not None:
                    on_progress(rank, progress)

            left = seconds_left(self._deadline)
            party, request = parties[rank], requests[rank]
            return _ask(party, request, left, cancels.append, on_part)

        def cancel() -> None:
            for each in list(cancels):
                each()

        try:
            return together(
                [lambda r=rank: ask(r) for rank in range(3)],  # type: ignore[misc]
                on_failure=cancel,
                awaited=lambda rank: self._trios.audit != "off" and rank in begun,
            )
        except Exception:
            if self._drawn and begun:  # else nobody has learned what was drawn
                self._trios.note_lost_draw()
            raise


def _ask(
    party: PartyConnection,
    request: Request[ReplyT],
    timeout: float,
    on_start: Callable[[Callable[[], Any]], None],
    on_progress: Callable[[Any], None],
) -> ReplyT:
    frames = party.call(CALL, [encode(request)], timeout=timeout, on_start=on_start)
    for body, arrays in frames:
        match body:
            case {
                "progress": {"step": int(), "steps": int(), "scope": str()} as progress
            }:
                on_progress(progress)
            case {"reply": dict() as reply}:
                return decode_reply(request, reply, arrays)
            case _:
                raise MessageError(f"{party.name} sent neither progress nor a reply.")
    raise MessageError(f"{party.name} ended the call without a reply.")


def together(
    jobs: Sequence[Callable[[], Any]],
    on_failure: Callable[[], None] = lambda: None,
    awaited: Callable[[int], bool] = lambda _: False,
) -> list[Any]:
    """What several jobs give, each in a thread; raises the error that explains most.

    Who only reports that a peer failed is not the cause; what one party refuses the
    others may not have got. When one has failed, the others have a second, and those
    that are ``awaited``, by their place, have as long as they take.
    """
    with ThreadPoolExecutor(len(jobs)) as pool:
        futures: list[Future[Any]] = [pool.submit(job) for job in jobs]
        done, left = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in done):
            wait(left, timeout=_GRACE)
            wait([future for k, future in enumerate(futures) if awaited(k)])
            on_failure()
        wait(futures)
    errors = [error for future in futures if (error := future.exception())]
    reports = [error for error in errors if isinstance(error, AuditError)]
    if reports:
        raise _joined(reports) from reports[0]
    if errors:
        raise min(errors, key=_distance)
    return [future.result() for future in futures]


def _joined(reports: Sequence[AuditError]) -> AuditError:
    """One error of all that parties report: an honest one may be among those that a
    lying one accuses, and the client cannot tell which is which."""
    suspects = dict.fromkeys(report.suspects for report in reports)
    return AuditError(" ".join(map(str, reports)), suspects="; ".join(suspects))


def _distance(error: BaseException) -> int:
    """How far an error is from the cause."""
    if isinstance(error, PeerIdentityError):
        return 1
    if isinstance(error, PeerError):  # who cannot be reached, before what is reported
        return 3 if type(error) is PeerError else 4
    return 2 if isinstance(error, BusyError) else 0


def _pause(error: DittoError, attempt: int) -> float:
    """Seconds until it is asked again."""
    usual = _BACKOFF[min(attempt, len(_BACKOFF) - 1)]
    asked = error.retry_after if isinstance(error, BusyError) else 0.0
    return max(usual, asked) * random.uniform(0.8, 1.2)  # noqa: S311


def _is_stateless(requests: Sequence[Request[ReplyT]]) -> bool:
    """Whether another trio can answer: no state is continued."""
    turns = [r.turn for r in requests if isinstance(r, RunPlan)]
    return all(turn is None or turn.number == 0 for turn in turns)
