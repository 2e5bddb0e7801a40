"""Proofs that what the parties sent each other of products is what the protocol says.

In topological order: soundness, galois, coins, relations, rows, products, folding,
proof. What is proved and what is not stands in docs/explanation/audit.md.
"""

from ditto.audit.proof import Fault, audit_cost, prove_ledger
from ditto.audit.soundness import PROOFS, SOUNDNESS_BITS

__all__ = ["PROOFS", "SOUNDNESS_BITS", "Fault", "audit_cost", "prove_ledger"]
