"""What answers say, against Hugging Face's pipelines where there are any."""

import json

import numpy as np
import pytest

from ditto.client import Tokenizer
from ditto.client.questions import Asked, Question, make_questions
from ditto.client.reading import Reader
from ditto.errors import SetupError, TextCutWarning
from ditto.models import Head
from ditto.models.sentence import SentenceEncoding

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] anna liv ##es in par ##is where did she go . ?"
WORDS = PIECES.split()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    return Tokenizer.load(folder)


def ask(
    tokenizer: Tokenizer, head: Head, text: str, pair: str | None = None, **how: object
) -> Question:
    pairs = None if pair is None else [pair]
    asked = Asked(**{"max_length": 32, **how})  # type: ignore[arg-type]
    encoding = SentenceEncoding(prompts={"query": "where "})
    return make_questions([text], pairs, tokenizer, head, asked, encoding)[0]


def test_labels_have_probabilities(tokenizer: Tokenizer) -> None:
    labels = {0: "bad", 1: "good", 2: "so-so"}
    logits = np.array([0.0, 2.0, 1.0], np.float32)
    question = ask(tokenizer, Head.TEXT_CLASSIFICATION, "Anna lives")
    one = Reader(Head.TEXT_CLASSIFICATION, tokenizer, labels).read(question, logits)
    assert one.label == "good"
    assert list(one.probabilities or {}) == ["good", "so-so", "bad"]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert one.probabilities == pytest.approx(
        {"good": expected[1], "so-so": expected[2], "bad": expected[0]}
    )
    many = Reader(
        Head.TEXT_CLASSIFICATION, tokenizer, labels, "multi_label_classification"
    ).read(question, logits)
    assert many.probabilities == pytest.approx(
        {"good": 1 / (1 + np.exp(-2)), "so-so": 1 / (1 + np.exp(-1)), "bad": 0.5}
    )
    value = Reader(Head.TEXT_CLASSIFICATION, tokenizer, labels, "regression").read(
        question, logits[:1]
    )
    assert (value.label, value.probabilities) == (None, None)


def test_words_are_put_together_from_pieces(tokenizer: Tokenizer) -> None:
    """[CLS] and [SEP] are left out, a word has the label of its first piece."""
    question = ask(tokenizer, Head.TOKEN_CLASSIFICATION, "Anna lives in  Paris.")
    logits = np.zeros((32, 2), np.float32)
    logits[[1, 5, 0, 7], 1] = 3.0  # anna, par, [CLS], and . is 7
    logits[6, 0] = 9.0  # ##is
    answer = Reader(Head.TOKEN_CLASSIFICATION, tokenizer, {0: "O", 1: "NAME"}).read(
        question, logits
    )
    assert answer.tokens is not None
    assert [(w.word, w.label) for w in answer.tokens] == [
        ("Anna", "NAME"), ("lives", "O"), ("in", "O"), ("Paris", "NAME"), (".", "NAME"),
    ]  # fmt: skip
    paris = answer.tokens[3]
    assert (paris.start, paris.end) == (15, 20)
    assert paris.score == pytest.approx(1 / (1 + np.exp(-3)))
    assert answer.output.shape == (9, 2)


def test_masks_are_filled_with_words(tokenizer: Tokenizer) -> None:
    question = ask(tokenizer, Head.FILL_MASK, "Anna [MASK] in [MASK]")
    logits = np.zeros((32, len(WORDS)), np.float32)
    logits[2, WORDS.index("go")] = 4.0
    logits[4, WORDS.index("par")] = 4.0
    answer = Reader(Head.FILL_MASK, tokenizer).read(question, logits)
    assert answer.fills is not None
    assert [fills[0].word for fills in answer.fills] == ["go", "par"]
    assert {len(fills) for fills in answer.fills} == {5}
    total = np.exp(4) / (np.exp(4) + len(WORDS) - 1)
    assert answer.fills[0][0].score == pytest.approx(total)
    with pytest.raises(SetupError, match=r"has no \[MASK\]: put it where"):
        ask(tokenizer, Head.FILL_MASK, "Anna lives")
    with pytest.raises(SetupError, match=r"The \[MASK\] of text 1 lies beyond the 6"):
        ask(tokenizer, Head.FILL_MASK, "anna " * 9 + "[MASK]", max_length=6)


def test_the_answer_is_a_span_of_the_second_text(tokenizer: Tokenizer) -> None:
    text = "Anna lives in Paris."
    question = ask(tokenizer, Head.QUESTION_ANSWERING, "where did she go?", text)
    ids = question.encoded.ids
    logits = np.full((32, 2), -2.0, np.float32)
    piece = len(ids) - 1 - ids[::-1].index(WORDS.index("##is"))
    logits[piece, 0] = logits[piece, 1] = 5.0  # a piece: the whole word is meant
    logits[1, 0] = logits[3, 1] = 9.0  # in the question: never
    answer = Reader(Head.QUESTION_ANSWERING, tokenizer).read(question, logits)
    assert answer.span is not None
    assert (answer.span.text, answer.span.start, answer.span.end) == ("Paris", 14, 19)
    assert 0.9 < answer.span.score < 1
    with pytest.raises(SetupError, match="needs a text that has the answer"):
        ask(tokenizer, Head.QUESTION_ANSWERING, "where?")


def test_embeddings_are_normalised_at_the_client(tokenizer: Tokenizer) -> None:
    encoding = SentenceEncoding(normalize=True)
    reader = Reader(Head.FEATURE_EXTRACTION, tokenizer, encoding=encoding)
    question = ask(tokenizer, Head.FEATURE_EXTRACTION, "Anna", prompt_name="query")
    assert question.texts == ("where Anna",)
    one, other = (reader.read(question, np.array(x)) for x in ([3.0, 4.0], [4.0, -3.0]))
    assert one.embedding.tolist() == pytest.approx([0.6, 0.8])
    assert (one.similarity(one), one.similarity(other)) == pytest.approx((1.0, 0.0))
    with pytest.raises(SetupError, match="has no logits"):
        _ = one.logits
    nothing = reader.read(question, np.zeros(2))
    assert nothing.embedding.tolist() == [0, 0]


def test_what_is_no_text_or_too_long_is_told(tokenizer: Tokenizer) -> None:
    for wrong in (None, 3, b"x", ("a", "b")):
        with pytest.raises(SetupError, match="Text 1 of texts is of type"):
            ask(tokenizer, Head.FEATURE_EXTRACTION, wrong)  # type: ignore[arg-type]
    long = "anna " * 40
    with pytest.warns(TextCutWarning, match="32 of its 42 tokens are used"):
        cut = ask(tokenizer, Head.FEATURE_EXTRACTION, long)
    answer = Reader(Head.FEATURE_EXTRACTION, tokenizer).read(cut, np.ones(3))
    assert (answer.used_tokens, answer.token_count) == (32, 42)
    with pytest.raises(SetupError, match="42 tokens, more than the 32"):
        ask(tokenizer, Head.FEATURE_EXTRACTION, long, too_long="raise")
    with pytest.raises(SetupError, match="neither 'cut' nor 'raise'"):
        ask(tokenizer, Head.FEATURE_EXTRACTION, long, too_long="keep")
