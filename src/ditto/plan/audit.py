"""What of a run the parties prove to each other before they answer."""

from typing import Literal, get_args

from ditto.errors import SetupError

Audit = Literal["off", "products", "recasts", "full"]
"""Nothing; the messages of multiply and einsum; those of provable recasts too; or the
same for plans in which there is nothing else (docs/explanation/audit.md)."""
AUDITS: tuple[Audit, ...] = get_args(Audit)
"""From the least to the most."""


def needs_provable(audit: Audit) -> bool:
    """Whether it is for plans with provable recasts alone."""
    return AUDITS.index(audit) >= AUDITS.index("recasts")


def stricter(one: Audit, other: Audit) -> Audit:
    """What satisfies both."""
    return max(one, other, key=AUDITS.index)


def check_audit(name: str) -> Audit:
    """A name from outside."""
    for audit in AUDITS:
        if name == audit:
            return audit
    raise SetupError(f"audit={name!r} is none of {', '.join(AUDITS)}.")


def check_audit_chance(chance: float | None) -> float | None:
    """A chance from outside; None is the one that was agreed on."""
    if chance is not None and not 0 < chance <= 1:
        raise SetupError(f"audit_chance={chance!r}: it is above 0, and 1 at most.")
    return chance
