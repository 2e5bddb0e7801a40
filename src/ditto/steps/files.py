"""Plans from files: read with limits, and checked against every rule."""

from pathlib import Path

from ditto.errors import PlanError
from ditto.plan import Plan
from ditto.plan.reader import MAX_BYTES, body_of, parse
from ditto.steps.check import check_plan
from ditto.steps.table import STEPS


def load_plan(path: str | Path) -> Plan:
    """A plan from a file, refused before it is read if it is too large."""
    file = Path(path)
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise PlanError(f"{file} has {size} bytes; a plan has at most {MAX_BYTES}.")
        return plan_from_bytes(file.read_bytes())
    except OSError as error:
        raise PlanError(f"{file} cannot be read: {error.strerror}.") from None


def plan_from_bytes(data: bytes) -> Plan:
    """A plan from a file's bytes; all but an intact one of this version is refused."""
    return plan_from_body(body_of(data))


def plan_from_body(body: bytes) -> Plan:
    """A plan from its JSON alone."""
    plan = parse(body, STEPS)
    check_plan(plan)
    return plan
