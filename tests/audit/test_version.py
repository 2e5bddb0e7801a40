"""What the parties send in proofs is what the number of their version says."""

import hashlib

from ditto.audit import PROOFS
from ditto.runtime import auditing

from .parties import CASES, RECASTS, audited, masks_from

SENT = {3: "13e7478905c3602fe140946c100ebb35"}
"""By version, a hash of when a part of a run ends, and of what all parties receive in
the proofs of some runs."""
RUNS = "multiply", "matmul + recast", "sum of squares", "wide multiply"
PROVABLE = "checked wide truncate", "checked square in parts"


def test_another_proof_has_another_version() -> None:
    """If this fails parties of both builds would accuse each other: give PROOFS the
    next number, and that number the new hash here."""
    state = hashlib.sha256(f"{auditing.PART}".encode())
    for name in (*RUNS, *PROVABLE):
        case = (CASES | RECASTS)[name]
        for outcome in audited(case, case.deal(1), masks_from(1, {})):
            assert outcome.fault is None
            for bits, words in outcome.received:
                state.update(bits.to_bytes(2) + words.astype("<u8").tobytes())
    assert SENT[PROOFS] == state.hexdigest()[:32]
