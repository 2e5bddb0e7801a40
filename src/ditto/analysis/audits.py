"""What the proofs of an audited run add to what its steps cost."""

import math
from dataclasses import dataclass

from ditto.audit.folding import folds_for
from ditto.audit.proof import proof_cost
from ditto.audit.soundness import FIRST, WORDS
from ditto.plan import Audit, Plan
from ditto.runtime.auditing import parts_of
from ditto.steps import Site, definition

_OF_PRODUCTS, _OF_RECASTS = 1600.0, 3500.0
"""Multiplications that take as long as the proof of an element of a result: of layers
of width 768 with 128 tokens (docs/results/audit.json), beside what its steps take."""


@dataclass(frozen=True)
class Proofs:
    """Of a whole run, at most."""

    parts: int = 0
    bytes: float = 0.0
    rounds: float = 0.0
    multiplications: float = 0.0
    """That take a party's processor as long."""


def proofs_of(plan: Plan, audit: Audit) -> Proofs:
    """The proofs of all parts: where recasts are provable they are proved, whatever is
    asked for. How long they are follows from what parties note; this is what they cost
    if each is as long as its steps allow."""
    if audit == "off":
        return Proofs()
    parts, sent, rounds, elements = parts_of(plan), 0.0, 0.0, 0.0
    first, each = (FIRST, _OF_RECASTS) if plan.provable else (WORDS, _OF_PRODUCTS)
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
    return Proofs(len(parts), sent, rounds, elements * each)


def _is_wide(site: Site) -> bool:
    """Whether messages of the step may be of the ring of 64 bits."""
    types = [value.type for value in (*site.operands, *site.results)]
    return site.step.kind.interactive and any(t and t.bits > 32 for t in types)
