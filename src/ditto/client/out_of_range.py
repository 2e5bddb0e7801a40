"""What becomes of an answer whose values left their range.

The parties tell the client one bit: whether a value left the range its plan was made
for. Then the answer may be wrong. ``retry`` asks again by a plan with wide margins,
which is a little less precise and hardly ever left; ``raise`` refuses the answer; and
``return`` gives it with ``in_range`` False, for whoever wants to look at it.
"""

from typing import Literal

from ditto.errors import OutOfRangeError, SetupError

OnOutOfRange = Literal["retry", "raise", "return"]
POLICIES: tuple[OnOutOfRange, ...] = ("retry", "raise", "return")


def check_policy(policy: str) -> OnOutOfRange:
    """A policy by its name."""
    for known in POLICIES:
        if policy == known:
            return known
    raise SetupError(
        f"on_out_of_range={policy!r} is none of {', '.join(map(repr, POLICIES))}."
    )


def refusal(model: str, *, wide: bool) -> OutOfRangeError:
    """Of an answer; names the model, and nothing of the text."""
    where = "even the wide range" if wide else "the range"
    way_out = (
        "Open the model with a larger margin, or calibrate it with texts like this one."
        if wide
        else "Ask with on_out_of_range='retry', or calibrate it with texts like this "
        "one."
    )
    return OutOfRangeError(
        f"The answer was refused: a value left {where} that the model {model!r} is "
        f"prepared for, so the answer may be wrong. {way_out}"
    )
