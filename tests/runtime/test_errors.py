"""What leaves a party of an error: its kind, its public text, and nothing secret."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import ditto.errors
from ditto.client import share_input
from ditto.errors import (
    DisagreementError,
    DittoError,
    EngineError,
    FixedPointRangeError,
    MessageError,
    PeerLostError,
    RequestError,
    SetupError,
)
from ditto.frames import Arrays, Json
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment
from ditto.runtime import ProcessTrio, Session
from ditto.runtime.worker import describe
from ditto.wire import RunPlan

SHARE = "31337"
KINDS = [
    kind
    for kind in vars(ditto.errors).values()
    if isinstance(kind, type) and issubclass(kind, DittoError)
]
TELLING = {
    "RequestError",
    "UnknownModelError",  # names of models
    "StateLostError",  # a constant
    "NotPermittedError",  # identities, calls, names of models
    "BusyError",  # how many are waiting or kept, and the limit
    "AuditError",  # names of parties, and which check failed
    "CertificateError",  # what the certificate says, to who shows it
    "TrioMismatchError",  # the name of a party, digests, versions
    "UnsupportedOperationError",
}
"""Kinds whose texts are made of what is public, besides those of peers."""
DETAILS = {"peer", "operation", "scope", "retry_after", "cause", "suspects"}


def made(kind: type[DittoError]) -> DittoError:
    """An error with a secret in its text and in an attribute."""
    error = kind.__new__(kind)
    error.args = (f"the share is {SHARE}",)
    vars(error).update(share=SHARE, peer="bob", operation="Div", scope="layer.0")
    vars(error).update(cause="expired", reason="roles alternate", retry_after=1.0)
    vars(error).update(suspects="bob or carol")
    return error


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_texts_of_public_things_leave(kind: type[DittoError]) -> None:
    told = describe(made(kind))
    assert told["type"] == kind.__name__
    assert set(told["details"]) <= DETAILS
    telling = kind.__name__ in TELLING or kind.__name__.startswith("Peer")
    assert (SHARE in str(told)) == telling


@pytest.mark.parametrize(
    "error", [ValueError(SHARE), KeyError(SHARE), RuntimeError(SHARE, SHARE)]
)
def test_an_error_that_nobody_foresaw_is_told_without_its_text(
    error: Exception,
) -> None:
    assert describe(error) == {
        "type": "DittoError",
        "message": f"internal: {DittoError.public}",
        "details": {},
    }


@pytest.fixture(scope="module")
def trio() -> Iterator[ProcessTrio]:
    with ProcessTrio(timeout=20.0) as parties:
        yield parties


def fail(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """Each party in another way, with a share in the text."""
    text = f"share {int(arrays['share'][0])}"
    if session.party.rank == 0:
        raise FixedPointRangeError(text)
    if session.party.rank == 1:
        raise EngineError(text, operation="Div", scope="layer.0")
    raise ZeroDivisionError(text)


def test_no_text_of_a_party_reaches_whoever_asked(
    capfd: pytest.CaptureFixture[str],
) -> None:
    share = {"share": np.array([int(SHARE)], np.uint32)}
    with ProcessTrio(timeout=20.0) as parties:
        said = parties.outcomes(fail, None, [share] * 3)
    assert [type(one) for one in said] == [
        FixedPointRangeError,
        EngineError,
        DittoError,
    ]
    for one in said:
        assert SHARE not in str(one) + repr(one) + str(vars(one))
    assert isinstance(said[1], EngineError)
    assert (said[1].operation, said[1].scope) == ("Div", "layer.0")
    log = capfd.readouterr().err  # where each party's operator finds it
    assert log.count(f"share {SHARE}") >= 3


def test_parties_that_disagree_say_so_and_no_more(trio: ProcessTrio) -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    plan = ditto.compile(lambda x: x * x, (x,), calibration=[(x,)])
    parties = LocalDeployment(trio)
    Publisher(parties, "m", "owner", []).publish(plan)
    dealt = share_input(signature_of(plan).inputs[0], x)
    runs = [RunPlan("m", plan.digest, None, arrays) for arrays in dealt]
    parties.call(runs)
    (v,) = plan.inputs[0].encodings
    runs[0] = replace(runs[0], arrays={**dealt[0], f"first{v}": dealt[0][f"second{v}"]})
    with pytest.raises(DisagreementError) as caught:
        parties.call(runs)
    assert str(caught.value) == f"disagreement: {DisagreementError.public}"


def test_kinds_that_tell_are_raised_before_anything_is_computed() -> None:
    """A refusal is a MessageError; nothing else of that family tells its text."""
    assert issubclass(RequestError, MessageError)
    assert MessageError(SHARE).public_message() == f"message: {MessageError.public}"
    assert SetupError(SHARE).public_message() == f"setup: {SetupError.public}"
    lost = PeerLostError("bob is gone", peer="bob")
    assert lost.public_message() == "bob is gone"
