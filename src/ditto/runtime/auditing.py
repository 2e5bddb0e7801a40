"""A run whose products and recasts are proved before anything is answered.

What is noted takes memory, and its proof several times as much. So a run that notes
much is proved in parts: whenever the steps since the last proof have computed
``PART`` elements. Where that is follows from the plan, and all three parties have been
told the same audit (``party.server.lane``). In a run whose audit is only decided at its
end there is one part.

Security
    A part is a run of its own to its proof (``audit.proof``): all messages of its steps
    have been received when the weights of its claims are drawn, and each part has masks
    and coins of its own. A wrong message goes unnoticed in the part that it is of with
    a chance of 2^-40, and the run ends there. A service compares what was dealt for the
    run before the first proof, so that no proof fails because a client or an owner
    dealt contradicting shares. In plans with steps that nothing proves, a stop may tell
    a party that deviates in them in which part its guess was wrong: with K parts up to
    log2(K + 1) bits instead of one.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from ditto.audit import prove_ledger
from ditto.errors import AuditError
from ditto.plan import Audit, Plan
from ditto.protocols.ledger import Ledger
from ditto.runtime.executor import Spent
from ditto.runtime.session import Session

PART = 1 << 23
"""Elements that steps compute until they are proved: two to three layers of width 768
with 128 tokens, whose proof takes about 1 GB at each party. The steps of one round are
proved together, however many they compute."""


@contextmanager
def noting(session: Session, audit: Audit) -> Iterator[None]:
    """Inside, the party notes what is to be proved."""
    party = session.party
    party.ledger = None if audit == "off" else Ledger()
    try:
        yield
    finally:
        party.ledger = None


class Proofs:
    """The proofs of one run, part by part."""

    def __init__(
        self,
        session: Session,
        ends: Collection[int] = (),
        before_first: Callable[[], None] = lambda: None,
    ) -> None:
        """A part ends before each of the steps ``ends``; ``before_first`` is called
        when the first proof is due, and may raise."""
        self._session, self._before_first = session, before_first
        self._ends = ends
        self._spent: list[Spent] = []

    def on_step(self, i: int) -> None:
        """Prove what was noted, if a part ends before this step."""
        if i in self._ends:
            self._prove()
            self._session.party.ledger = Ledger()

    def finish(self) -> Spent:
        """Prove the rest; what all proofs cost."""
        self._prove()
        return Spent(
            sum(each.bytes for each in self._spent),
            sum(each.rounds for each in self._spent),
            sum(each.seconds for each in self._spent),
        )

    def _prove(self) -> None:
        if not self._spent:
            self._before_first()
        self._spent.append(prove(self._session))


def parts_of(plan: Plan) -> list[list[int]]:
    """The steps of each part."""
    parts: list[list[int]] = [[]]
    elements = 0
    for group in plan.round_groups():
        if elements >= PART:
            parts.append([])
            elements = 0
        parts[-1] += group
        elements += sum(
            plan.values[v].size
            for i in group
            if plan.steps[i].kind.interactive
            for v in plan.steps[i].outputs
        )
    return parts


def part_ends(plan: Plan) -> frozenset[int]:
    """The steps before which a part of the plan is proved."""
    return frozenset(part[0] for part in parts_of(plan)[1:])


def prove(session: Session) -> Spent:
    """Prove what was noted, all three parties together; raises AuditError."""
    party = session.party
    ledger, party.ledger = party.ledger, None
    if ledger is None:
        raise TypeError("Nothing was noted that could be proved.")
    channel, started = party.channel, time.perf_counter()
    channel.restart_clock()
    before = channel.traffic().bytes
    fault = prove_ledger(party, ledger)
    if fault is not None:
        names = channel.names
        suspects = " or ".join(names[rank] for rank in fault.suspects)
        raise AuditError(
            f"The proof of {names[fault.prover]} failed: {fault.reason}. {suspects} "
            f"has deviated from the protocol. Nothing was answered or kept.",
            suspects=suspects,
        )
    after = channel.traffic()
    seconds = time.perf_counter() - started
    return Spent(after.bytes - before, after.rounds, seconds)
