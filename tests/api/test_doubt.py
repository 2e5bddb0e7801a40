"""An answer that is not the float model's says so: by itself, as a warning, at once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ditto.api import Plans, Pretrained, from_pretrained
from ditto.api.doubt import (
    STATED_ERROR,
    compare,
    doubt_of,
    doubt_of_token,
    relative_difference,
)
from ditto.client import Tokenizer
from ditto.client.tokens import Encoded
from ditto.compiler import PROFILES
from ditto.errors import AnswerWarning
from ditto.models import Head, load_model
from ditto.owner.samples import Samples, TextSamples
from ditto.runtime import ThreadTrio
from tests.evaluation.test_evaluate import spiked
from tests.folders import TEXTS, bert_folder, gpt2_folder

WITHOUT = [text for text in TEXTS if "mat" not in text]


class Narrow(Samples):
    """A few texts and nothing else: what calibration was like, and is not any more."""

    def __init__(self, tokenizer: Tokenizer, texts: list[str]) -> None:
        self._tokenizer, self._texts = tokenizer, texts
        self.pad_id = tokenizer.pad_id

    def rows(self, length: int) -> int:
        return len(self._texts)

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        text = self._texts[k % len(self._texts)]
        return self._tokenizer.encode(text, max_length=length)


def narrow(
    folder: Path, texts: list[str], trio: ThreadTrio, head: str | None = None
) -> Pretrained:
    model, tokenizer = load_model(folder, head), Tokenizer.load(folder)
    plans = Plans(model, PROFILES["ditto"], Narrow(tokenizer, texts))
    return Pretrained(
        model, tokenizer, {}, plans, "mpc", trio=trio, on_out_of_range="return"
    )


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def test_differences_are_relative_and_the_worst_row_counts() -> None:
    exact = np.array([[3.0, 4.0], [0.0, 0.1]])
    assert relative_difference(exact, exact) == 0
    assert relative_difference(exact * 1.1, exact) == pytest.approx(0.1)
    assert relative_difference(
        exact + np.array([[0, 0], [0, 0.05]]), exact
    ) == pytest.approx(0.5)
    near = relative_difference(
        exact + np.array([[0, 0], [0, 0.05]]), exact, logits=True
    )
    assert near == pytest.approx(0.05)
    assert relative_difference(exact * np.nan, exact) == np.inf
    assert doubt_of(STATED_ERROR) is None
    assert "7% off" in (doubt_of(0.07) or "")


def test_a_chosen_token_is_judged_by_the_float_logits() -> None:
    logits = np.random.default_rng(0).normal(size=100)
    best, second = np.argsort(logits)[[-1, -20]]
    assert doubt_of_token(int(best), logits) is None
    assert "would not choose" in (doubt_of_token(int(second), logits) or "")


def test_a_wrong_answer_is_marked_and_its_cause_named(
    tmp_path: Path, trio: ThreadTrio
) -> None:
    folder = spiked(bert_folder(tmp_path / "b"), tmp_path / "s")
    model = narrow(folder, WITHOUT, trio, "feature-extraction")
    right = model.predict([TEXTS[3]], pad_to=16)[0]
    assert right.doubt is None
    assert right.difference is not None
    assert right.difference < STATED_ERROR
    # just beyond its limit a recast is wrong in some runs only: one in two and more
    asked = [TEXTS[3], *[TEXTS[0]] * 20]
    with pytest.warns(AnswerWarning, match=r"text \d+ .* off the float .*'embeddings'"):
        one, *others = model.predict(asked, pad_to=16)
    assert one.doubt is None
    doubts = [other.doubt for other in others if other.doubt is not None]
    assert doubts
    assert all("reaches" in doubt for doubt in doubts)


def test_default_calibration_covers_the_word_that_is_too_large(
    tmp_path: Path, trio: ThreadTrio
) -> None:
    """Random tokens stand beside the owner's own texts."""
    folder = spiked(bert_folder(tmp_path / "b"), tmp_path / "s")
    tokenizer = Tokenizer.load(folder)
    samples = TextSamples(tokenizer, WITHOUT)
    word = tokenizer.encode("mat").ids[1]
    rows = [samples.row(k, 32).ids for k in range(samples.rows(32))]
    assert any(word in row for row in rows)
    with from_pretrained(folder, calibration=WITHOUT, trio=trio) as model:
        assert model.predict([TEXTS[0]], pad_to=32)[0].doubt is None


def test_without_the_check_nothing_is_compared(
    tmp_path: Path, trio: ThreadTrio
) -> None:
    folder = bert_folder(tmp_path / "b")
    with from_pretrained(folder, calibration=TEXTS, trio=trio, check=False) as model:
        answer = model.predict([TEXTS[0]], pad_to=16)[0]
    assert answer.difference is None
    assert answer.doubt is None


def test_tokens_that_are_wrong_are_marked(tmp_path: Path, trio: ThreadTrio) -> None:
    folder = gpt2_folder(tmp_path / "g")
    model = narrow(folder, [text.upper() for text in TEXTS], trio)
    table = model.model.params["embeddings"]["word"]
    ids = model.tokenizer.encode("z").ids
    table[ids] = 60.0 * np.sign(table[ids])
    for reveal in ("logits", "token"):
        (token,) = model.stream("THE OLD", 1, reveal=reveal)
        assert token.doubts == (None,)
    with pytest.warns(AnswerWarning, match="Token 1 is not to be trusted"):
        tokens = [next(model.stream(text, 1)) for text in ("zz", "zzz", "zzzz")]
    # what wraps is anything, so it may be right by chance: one in forty is
    assert any(token.doubts[0] is not None for token in tokens)


def test_one_wrong_logit_among_many_is_doubted() -> None:
    """It hardly counts in the size of the difference, but it is the one chosen."""
    rng = np.random.default_rng(0)
    for head, mean in (
        (Head.TEXT_GENERATION, -33.0),
        (Head.FILL_MASK, -7.0),
        (Head.TOKEN_CLASSIFICATION, 0.0),
    ):
        exact = rng.normal(mean, 2.5, (2, 30_000))
        exact[:, 5] = mean + 14
        got = exact + rng.normal(0, 0.01, exact.shape)
        assert compare(got, exact, head)[1] is None
        got[1, 77] = got.max() + 5
        assert "would not choose" in (compare(got, exact, head)[1] or "")
        assert compare(exact + rng.normal(0, 1, exact.shape), exact, head)[1]


def test_another_label_is_doubted_however_close() -> None:
    difference, doubt = compare([4.85, 5.0], [5.0, 4.9], Head.TEXT_CLASSIFICATION)
    assert difference < STATED_ERROR
    assert doubt == "the float model chooses another label"
    assert compare([5.1, 4.9], [5.0, 4.9], Head.TEXT_CLASSIFICATION)[1] is None
