"""What the proofs of an audited run add to what its steps cost."""

import math
from dataclasses import dataclass

from ditto.audit.folding import folds_for
from ditto.audit.proof import proof_cost
from ditto.audit.soundness import FIRST, WORDS
from ditto.plan import Audit, Plan, needs_provable
from ditto.runtime.auditing import parts_of
from ditto.steps import Site, definition

_MULTIPLICATIONS = {"products": 1600.0, "recasts": 3500.0, "full": 3500.0}
"""That take as long as the proof of an element of a result: of BERT-base with 128
tokens (docs/results/audit.json), beside what its steps take."""


@dataclass(frozen=True)
class Proofs:
    """Of a whole run, at most."""

    parts: int = 0
    bytes: float = 0.0
    rounds: float = 0.0
    multiplications: float = 0.0
    """That take a party's processor as long."""


def proofs_of(plan: Plan, audit: Audit) -> Proofs:
    """The proofs of all parts. How long they are follows from what parties note; this
    is what they cost if each is as long as its steps allow."""
    if audit == "off":
        return Proofs()
    parts, sent, rounds, elements = parts_of(plan), 0.0, 0.0, 0.0
    first = FIRST if needs_provable(audit) else WORDS
    for part in parts:
        sites = [Site.of(plan, i) for i in part]
        terms = sum(definition(site.step).proof_terms(site) for site in sites)
        folds = folds_for(math.ceil(terms))
        rings = {32} | {64 for site in sites if _is_wide(site)}
        costs = [proof_cost(folds, bits, first) for bits in rings]
        sent += sum(cost.bits for cost in costs) / 8
        rounds += max(cost.rounds for cost in costs)
        elements += sum(
            site.result.size for site in sites if site.step.kind.interactive
        )
    return Proofs(len(parts), sent, rounds, elements * _MULTIPLICATIONS[audit])


def _is_wide(site: Site) -> bool:
    """Whether messages of the step may be of the ring of 64 bits."""
    types = [value.type for value in (*site.operands, *site.results)]
    return site.step.kind.interactive and any(t and t.bits > 32 for t in types)
