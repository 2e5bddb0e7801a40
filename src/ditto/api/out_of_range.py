"""A computation asked again, by a plan with wide margins, if a value left its range."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ditto.api.backends import Backend, Outcome
from ditto.client.out_of_range import OnOutOfRange, refusal
from ditto.errors import FixedPointRangeError
from ditto.fixedpoint import Array
from ditto.models.computation import Computation


def ask(
    backend: Backend,
    computation: Computation,
    inputs: Sequence[Array],
    policy: OnOutOfRange,
    model: str,
    on_stage: Callable[[str], None],
) -> Outcome:
    """The outcome of a computation that continues none, settled by a policy."""
    try:
        outcome = backend.run(computation, inputs)
    except FixedPointRangeError:
        if not computation.wide:
            raise
        raise refusal(model, wide=True) from None  # wide margins leave no precision
    if outcome.in_range is not False or policy == "return":
        return outcome
    backend.release(outcome.state)
    if policy == "raise" or computation.wide:
        raise refusal(model, wide=computation.wide)
    on_stage("a value left its range: asking again with wide margins")
    wide = replace(computation, wide=True)
    again = ask(backend, wide, inputs, policy, model, on_stage)
    return replace(again, wide=True)
