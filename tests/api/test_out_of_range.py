"""An answer whose values left their range: asked again, refused, or given as it is."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ditto.api import Plans, Pretrained, backends
from ditto.api.doubt import STATED_ERROR
from ditto.api.export import export_model
from ditto.client import Signature, Tokenizer, answer_in_range
from ditto.client.bundle import read_client_bundle
from ditto.client.out_of_range import OnOutOfRange
from ditto.compiler import PROFILES
from ditto.errors import (
    AnswerWarning,
    FixedPointRangeError,
    OutOfRangeError,
    SetupError,
)
from ditto.fixedpoint import Array
from ditto.models import load_model
from ditto.models.computation import Computation
from ditto.owner.plans import OnStage
from ditto.party.local import store_of
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from tests.api.test_doubt import WITHOUT, Narrow
from tests.evaluation.test_evaluate import spiked
from tests.folders import TEXTS, bert_folder, gpt2_folder

LOUD = " ".join(["mat"] * 10)
"""The word whose embedding is larger than any that was calibrated on."""


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    return spiked(bert_folder(made / "b"), made / "s", [1.0, -0.8, 0.3])


def opened(
    folder: Path,
    texts: list[str],
    trio: ThreadTrio,
    policy: OnOutOfRange,
    head: str | None = None,
    kind: type[Plans] = Plans,
) -> Pretrained:
    model, tokenizer = load_model(folder, head), Tokenizer.load(folder)
    plans = kind(model, PROFILES["ditto"], Narrow(tokenizer, texts))
    return Pretrained(
        model,
        tokenizer,
        {},
        plans,
        "mpc",
        trio=trio,
        on_out_of_range=policy,
        name="spiked",
    )


def test_asked_again_with_wide_margins_it_is_right(
    folder: Path, trio: ThreadTrio
) -> None:
    model = opened(folder, WITHOUT, trio, "retry", "feature-extraction")
    calm, loud = model.predict([TEXTS[3], LOUD], pad_to=16)
    assert (calm.in_range, calm.wide) == (True, False)
    assert (loud.in_range, loud.wide) == (True, True)
    for answer in (calm, loud):
        assert answer.difference is not None
        assert answer.difference < STATED_ERROR


def test_refused_with_the_name_of_the_model_and_nothing_of_the_text(
    folder: Path, trio: ThreadTrio
) -> None:
    model = opened(folder, WITHOUT, trio, "raise", "feature-extraction")
    with pytest.raises(OutOfRangeError, match="'spiked'") as refused:
        model.predict([LOUD], pad_to=16)
    assert "mat" not in str(refused.value).replace("made", "")
    assert model.predict([TEXTS[3]], pad_to=16)[0].in_range is True


def test_given_as_it_is_it_says_so(folder: Path, trio: ThreadTrio) -> None:
    model = opened(folder, WITHOUT, trio, "return", "feature-extraction")
    with pytest.warns(AnswerWarning):
        (answer,) = model.predict([LOUD], pad_to=16)
    assert answer.in_range is False
    assert answer.doubt is not None


class OnlyUsual(Plans):
    """Whose wide margins leave no precision."""

    def plan(self, computation: Computation, on_stage: OnStage | None = None) -> Plan:
        if computation.wide:
            raise FixedPointRangeError("little would be left")
        return super().plan(computation, on_stage)


def test_refused_if_there_are_no_wide_margins(
    folder: Path, trio: ThreadTrio, tmp_path: Path
) -> None:
    model = opened(folder, WITHOUT, trio, "retry", "feature-extraction", OnlyUsual)
    with pytest.raises(OutOfRangeError, match="even the wide range"):
        model.predict([LOUD], pad_to=16)
    export_model(model, folder, tmp_path / "out", lengths=[8, 16], owner="acme")
    offers = read_client_bundle(tmp_path / "out" / "client").offers
    assert {(offer.length, offer.wide) for offer in offers} == {(8, False), (16, False)}


@pytest.mark.parametrize("noted", [0, 2])
def test_a_text_is_continued_with_wide_margins(
    tmp_path: Path, trio: ThreadTrio, monkeypatch: pytest.MonkeyPatch, noted: int
) -> None:
    """At the prompt or at a token: the whole text is run again, and then goes on so.

    That a value was noted is made up: no text makes this model leave its ranges.
    """
    model = opened(gpt2_folder(tmp_path / "g"), TEXTS, trio, "retry")
    told: list[bool | None] = []

    def verdict(signature: Signature, sent: Sequence[Mapping[str, Array]]) -> bool:
        real = answer_in_range(signature, sent)
        assert real is True
        told.append(len(told) != noted)
        return bool(told[-1])

    monkeypatch.setattr(backends, "answer_in_range", verdict)
    tokens = list(model.stream("the old", 4))
    assert [token.wide for token in tokens] == [k >= noted for k in range(4)]
    assert all(token.in_range for token in tokens)
    assert len(told) == 5
    due = [token.ids for token in model.with_mode("float").stream("the old", 4)]
    assert [token.ids for token in tokens] == due
    assert store_of(trio.sessions[0]).conversations() == {}
    refusing = opened(tmp_path / "g", TEXTS, trio, "raise")
    told.clear()
    with pytest.raises(OutOfRangeError, match="'spiked'"):
        list(refusing.stream("the old", 4))
    assert store_of(trio.sessions[0]).conversations() == {}


def test_a_policy_has_a_name(folder: Path, trio: ThreadTrio) -> None:
    with pytest.raises(SetupError, match="'retry', 'raise', 'return'"):
        opened(folder, WITHOUT, trio, "ignore")  # type: ignore[arg-type]
