"""Whether an answer is what the float model says, as far as it has to be.

Where text and weights are in one process, the float model's answer is a moment's work
and shows what no party can see: that a value left its range. An answer further from it
than the stated error is not to be trusted.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ditto.fixedpoint import Array
from ditto.models import Head

STATED_ERROR = 0.05
"""Of an answer, relative to its size. On `benchmarks/ordinary_texts` the parties stay
below half of it; the cosine of an embedding is then above 0.9988."""
_LOGITS_SIZE = 1.0
"""Logits smaller than this are compared as if they were of this size: what is nearly
undecided may be so in another way."""
_TOKEN_GAP = 6 * STATED_ERROR
"""How far below the best logit, in their usual size, a token chosen by the parties may
lie: two logits that are off by three times the usual error."""

Reals = npt.ArrayLike


def relative_difference(got: Reals, exact: Reals, *, logits: bool = False) -> float:
    """The size of the difference to the float answer, relative to that answer.

    The answer is a row, or several, of which the worst counts.
    """
    private, due = (np.asarray(x, np.float64) for x in (got, exact))
    sizes = np.linalg.norm(due, axis=-1)
    if logits:
        sizes = np.maximum(sizes, _LOGITS_SIZE)
    gaps = np.linalg.norm(private - due, axis=-1)
    worst = np.max(gaps / np.maximum(sizes, 1e-12), initial=0.0)
    return float(worst) if np.isfinite(private).all() else float("inf")


def compare(got: Reals, exact: Reals, head: Head) -> tuple[float, str | None]:
    """The difference of an answer to the float model's, and why to doubt it, if so."""
    private, due = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    if head.is_embedding:
        difference = relative_difference(private, due)
        return difference, doubt_of(difference)
    if head is Head.QUESTION_ANSWERING:  # all beginnings, and all ends
        private, due = private.T, due.T
    if (
        head.is_language or head is Head.QUESTION_ANSWERING
    ):  # what is added to all logits alike changes nothing
        private, due = (x - x.mean(-1, keepdims=True) for x in (private, due))
    difference = relative_difference(private, due, logits=True)
    return difference, doubt_of(difference) or _doubt_of_choice(private, due, head)


def _doubt_of_choice(got: Reals, exact: Reals, head: Head) -> str | None:
    """Among many logits a wrong one hardly counts, but it may be the one chosen."""
    private, due = (np.asarray(x).reshape(-1, np.shape(x)[-1]) for x in (got, exact))
    chosen = [int(k) for k in private.argmax(-1)]
    if head is Head.TEXT_CLASSIFICATION:
        labels = [int(k) for k in due.argmax(-1)]
        return None if chosen == labels else "the float model chooses another label"
    doubts = (doubt_of_token(k, row) for k, row in zip(chosen, due, strict=True))
    return next(filter(None, doubts), None)


def doubt_of(difference: float) -> str | None:
    """Why an answer is not to be trusted, if it is not."""
    if difference <= STATED_ERROR:
        return None
    return (
        f"it is {difference:.0%} off the float model's answer, where "
        f"{STATED_ERROR:.0%} is the most that may be"
    )


def doubt_of_token(token: int, exact: Reals) -> str | None:
    """The same of a token that the parties chose, by the float model's logits."""
    logits = np.asarray(exact, np.float64)
    gap = float((logits.max() - logits[token]) / max(float(logits.std()), 1e-12))
    if gap <= _TOKEN_GAP:
        return None
    return (
        f"the float model would not choose this: it is {gap:.1f} below its own choice"
    )


def doubts_of_tokens(
    result: Reals, exact: Reals | None, ended: Sequence[bool]
) -> tuple[str | None, ...]:
    """Why to doubt each token of the prompts that have not ended."""
    if exact is None:
        return (None,) * len(ended)
    return tuple(
        None if over else _doubt_of(got, due)
        for got, due, over in zip(
            np.asarray(result), np.asarray(exact), ended, strict=True
        )
    )


def _doubt_of(got: Array, exact: Array) -> str | None:
    """Of a row of logits, or of a token that the parties chose."""
    if np.ndim(got) == 0:
        return doubt_of_token(int(got), exact)
    return compare(got, exact, Head.TEXT_GENERATION)[1]
