"""The client opens an answer on which the parties agree, and no other."""

from typing import Any

import numpy as np
import pytest

from ditto.client import Signature, open_outputs
from ditto.client.signature import OutputSignature
from ditto.errors import DittoError, MessageError
from ditto.fixedpoint import Array, FxpType, encode
from ditto.frames import Arrays, Json
from ditto.protocols import reveal_to_client
from ditto.runtime import Session, ThreadTrio, as_arrays, from_arrays
from ditto.sharing import deal

KIND = FxpType(32, 8)
VALUES = np.array([1.5, -2.0, 0.25], np.float32)
LENGTHS = np.array([3, 1], np.int32)
SIGNATURE = Signature(
    digest="digest",
    inputs=(),
    outputs=(
        OutputSignature("float32", KIND, retained=False),
        OutputSignature("int32", None, retained=False),
        OutputSignature("float32", KIND, retained=True),
    ),
    result=[0, 1, 2],
)


def answer(session: Session, _: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    (x,) = from_arrays(arrays, [KIND])
    revealed = reveal_to_client(session.party, x)
    return {}, {**revealed.to_arrays("0"), "1": LENGTHS}


def replies() -> list[dict[str, Array]]:
    dealt = deal(encode(VALUES, KIND), KIND)
    with ThreadTrio() as trio:
        answers = trio.call(answer, None, [as_arrays([held]) for held in dealt])
    return [dict(arrays) for _, arrays in answers]


def test_an_answer_of_parties_that_agree() -> None:
    values, lengths, retained = open_outputs(SIGNATURE, replies())
    assert np.array_equal(values, VALUES)
    assert np.array_equal(lengths, LENGTHS)
    assert retained is None


@pytest.mark.parametrize("liar", range(3))
@pytest.mark.parametrize("part", ["0", "0.next"])
def test_a_share_that_is_not_what_the_other_holder_says(liar: int, part: str) -> None:
    """The answer names the two, one of whom has changed its part."""
    given = replies()
    given[liar][part] = given[liar][part].copy()
    given[liar][part][0] += 1
    other = (liar - 1) % 3 if part == "0" else (liar + 1) % 3
    first, second = (other, liar) if part == "0" else (liar, other)
    with pytest.raises(MessageError, match=f"P{first} and P{second} disagree"):
        open_outputs(SIGNATURE, given)


def test_a_liar_that_changes_both_of_its_parts_is_noticed() -> None:
    given = replies()
    given[0]["0"], given[0]["0.next"] = given[1]["0"], given[1]["0.next"]
    with pytest.raises(MessageError, match=r"P. and P. disagree"):
        open_outputs(SIGNATURE, given)


@pytest.mark.parametrize("liar", range(3))
def test_public_outputs_are_compared(liar: int) -> None:
    given = replies()
    given[liar]["1"] = LENGTHS + 1
    with pytest.raises(MessageError, match=r"P0 and P. disagree on output 1"):
        open_outputs(SIGNATURE, given)
    given[liar]["1"] = LENGTHS.astype(np.int64)
    with pytest.raises(MessageError, match=r"P0 and P. disagree on output 1"):
        open_outputs(SIGNATURE, given)


@pytest.mark.parametrize("part", ["0", "0.next", "1"])
def test_what_is_missing_is_told(part: str) -> None:
    given = replies()
    del given[1][part]
    with pytest.raises(MessageError, match=f"nothing of output {part[0]}"):
        open_outputs(SIGNATURE, given)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: a.astype(np.uint64),
        lambda a: a[:2],
        lambda a: a.astype(np.float32),
        lambda a: a.reshape(1, 3),
    ],
)
def test_what_has_another_form_is_refused(wrong: Any) -> None:
    given = replies()
    given[2]["0"] = wrong(given[2]["0"])
    with pytest.raises(DittoError):
        open_outputs(SIGNATURE, given)


def test_summands_are_fresh_each_time() -> None:
    """And any two of them are no shares that the parties computed with."""
    dealt = deal(encode(np.zeros(64), KIND), KIND)
    shares = {held.first.tobytes() for held in dealt}
    arrays = [as_arrays([held]) for held in dealt]
    with ThreadTrio() as trio:
        sent = [
            out["0"].tobytes()
            for _ in range(2)
            for _, out in trio.call(answer, None, arrays)
        ]
    assert len({*sent, *shares}) == 6 + 3
