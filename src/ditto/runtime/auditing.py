"""A run whose products are proved before anything is answered."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ditto.audit import prove_ledger
from ditto.errors import AuditError
from ditto.plan import Audit
from ditto.protocols.ledger import Ledger
from ditto.runtime.executor import Spent
from ditto.runtime.session import Session


@contextmanager
def noting(session: Session, audit: Audit) -> Iterator[None]:
    """Inside, the party notes what is to be proved."""
    party = session.party
    party.ledger = None if audit == "off" else Ledger()
    try:
        yield
    finally:
        party.ledger = None


def prove(session: Session) -> Spent | None:
    """Prove what was noted, all three parties together; raises AuditError.

    None if nothing is to be proved.
    """
    party = session.party
    ledger, party.ledger = party.ledger, None
    if ledger is None:
        return None
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
