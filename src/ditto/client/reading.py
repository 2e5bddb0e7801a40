"""What an opened answer says: probabilities, labelled words, words for a mask, spans.

The client learns what the head computes, the logits or the vector. All else follows
from that here, at no cost and with nothing more revealed; so does the length of 1 of an
embedding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ditto.client.questions import Question
from ditto.errors import SetupError
from ditto.models import Head
from ditto.models.sentence import SentenceEncoding

if TYPE_CHECKING:
    from ditto.client.tokens import Tokenizer

Reals = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

FILLS = 5
"""Words that are named for a mask."""
LONGEST_SPAN = 15
"""Tokens of an answer to a question, as in Hugging Face's pipeline."""


@dataclass(frozen=True)
class LabelledWord:
    """A word of the text, its likeliest label and the probability of that."""

    word: str
    label: str
    score: float
    start: int
    """Where it begins in its text, in characters."""
    end: int


@dataclass(frozen=True)
class Fill:
    """A word for a mask, and its probability."""

    word: str
    score: float
    token: int


@dataclass(frozen=True)
class Span:
    """The part of a text that answers a question, and its probability."""

    text: str
    score: float
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the client learns of one text."""

    head: Head
    output: Reals
    """What the head computes: logits, or an embedding."""
    label: str | None = None
    """The likeliest label, if there are labels of the text."""
    probabilities: Mapping[str, float] | None = None
    """Of the labels of the text, the likeliest first."""
    tokens: tuple[LabelledWord, ...] | None = None
    """The words of the text with their labels, if the head labels tokens."""
    fills: tuple[tuple[Fill, ...], ...] | None = None
    """For every mask the likeliest words, if the head fills masks."""
    span: Span | None = None
    """The answer to a question, if the head finds one."""
    token_count: int = 0
    """Tokens of the whole text."""
    used_tokens: int = 0
    """Those of them that the model was asked about."""
    in_range: bool | None = None
    """Whether no value left its range, as the parties saw it; None if none looked."""

    @property
    def logits(self) -> Reals:
        """Of the labels or the vocabulary; one row per token if it answers for each."""
        if self.head.is_embedding:
            raise SetupError(
                f"A model with head {self.head.value!r} has no logits; read the "
                "answer's embedding."
            )
        return self.output

    @property
    def embedding(self) -> Reals:
        """The embedding of the text."""
        if not self.head.is_embedding:
            raise SetupError(
                f"A model with head {self.head.value!r} gives no embedding; read the "
                "answer's logits, or open it with head='feature-extraction'."
            )
        return self.output

    def similarity(self, other: "Prediction") -> float:
        """The cosine of two embeddings: 1 for texts that mean the same."""
        return cosine_of(self.embedding, other.embedding)


def cosine_of(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """The cosine of two vectors; 0 if one has no length."""
    one, other = (np.asarray(x, np.float64) for x in (a, b))
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


@dataclass(frozen=True)
class Reader:
    """Reads the answers of one model."""

    head: Head
    tokenizer: "Tokenizer"
    labels: Mapping[int, str] = field(default_factory=dict)
    problem_type: str | None = None
    """As in ``config.json``: labels may exclude each other, or not."""
    encoding: SentenceEncoding = field(default_factory=SentenceEncoding)

    def finished(self, row: npt.ArrayLike) -> Reals:
        """What the head computed, with the length that an embedding is to have."""
        output = np.asarray(row, np.float32)
        if self.head is not Head.FEATURE_EXTRACTION or not self.encoding.normalize:
            return output
        length = float(np.linalg.norm(output.astype(np.float64)))
        return (output / max(length, 1e-12)).astype(np.float32)

    def read(self, question: Question, row: npt.ArrayLike) -> Prediction:
        """What the opened output says of the text that was asked."""
        encoded = question.encoded
        used = len(encoded.ids)
        output = np.asarray(row, np.float32)
        plain = Prediction(
            self.head,
            self.finished(output[:used] if self.head.is_per_token else output),
            token_count=used + encoded.cut,
            used_tokens=used,
        )
        match self.head:
            case Head.TEXT_CLASSIFICATION:
                return self._classified(plain)
            case Head.TOKEN_CLASSIFICATION:
                return replace(plain, tokens=tuple(self._labelled(plain, question)))
            case Head.FILL_MASK:
                return replace(plain, fills=tuple(self._filled(plain, question)))
            case Head.QUESTION_ANSWERING:
                return replace(plain, span=_best_span(plain.output, question))
            case _:
                return plain

    def _name(self, k: int) -> str:
        return self.labels.get(k, str(k))

    def _classified(self, plain: Prediction) -> Prediction:
        logits = plain.output.astype(np.float64)
        if self.problem_type == "regression":
            return plain
        alone = self.problem_type == "multi_label_classification" or len(logits) == 1
        scores = 1 / (1 + np.exp(-logits)) if alone else _softmax(logits)
        order = [int(k) for k in np.argsort(-scores, kind="stable")]
        probabilities = {self._name(k): float(scores[k]) for k in order}
        return replace(plain, label=self._name(order[0]), probabilities=probabilities)

    def _labelled(
        self, plain: Prediction, question: Question
    ) -> Iterator[LabelledWord]:
        """A word has the label of its first piece, as models are trained."""
        encoded, scores = question.encoded, _softmax(plain.output.astype(np.float64))
        for first, last in _words(question):
            start, end = encoded.offsets[first][0], encoded.offsets[last][1]
            text = question.texts[encoded.texts[first] or 0][start:end]
            start += len(text) - len(text.lstrip())
            best = int(scores[first].argmax())
            yield LabelledWord(
                text.strip(), self._name(best), float(scores[first, best]), start, end
            )

    def _filled(
        self, plain: Prediction, question: Question
    ) -> Iterator[tuple[Fill, ...]]:
        for position, token in enumerate(question.encoded.ids):
            if token != self.tokenizer.mask_id:
                continue
            scores = _softmax(plain.output[position].astype(np.float64))
            best = [int(k) for k in np.argsort(-scores, kind="stable")[:FILLS]]
            yield tuple(Fill(self.tokenizer.word(k), float(scores[k]), k) for k in best)


def _words(question: Question) -> Iterator[tuple[int, int]]:
    """The first and the last token of every word."""
    encoded = question.encoded
    first: int | None = None
    marks = [
        None if word is None else (text, word)
        for text, word in zip(encoded.texts, encoded.words, strict=True)
    ]
    for k, mark in enumerate(marks):
        if mark is None:
            continue
        if k == 0 or marks[k - 1] != mark:
            first = k
        if first is not None and (k + 1 == len(marks) or marks[k + 1] != mark):
            yield first, k


def _best_span(logits: Reals, question: Question) -> Span:
    """The likeliest span of the second text, of whole words.

    As in Hugging Face's pipeline: the first token, with which models say that there is
    no answer, takes its share of the probability and is not chosen.
    """
    encoded = question.encoded
    inside = np.array([text == 1 for text in encoded.texts])
    if not inside.any():
        return Span("", 0.0, 0, 0)
    allowed = inside.copy()
    allowed[0] = True
    starts, ends = (
        np.where(inside, _softmax(np.where(allowed, column, -np.inf)), 0.0)
        for column in logits.astype(np.float64).T
    )
    scores = np.tril(np.triu(np.outer(starts, ends)), LONGEST_SPAN - 1)
    first, last = (int(k) for k in np.unravel_index(scores.argmax(), scores.shape))
    start, end = encoded.offsets[first][0], encoded.offsets[last][1]
    for one, other in _words(question):
        if one <= first <= other:
            start = encoded.offsets[one][0]
        if one <= last <= other:
            end = encoded.offsets[other][1]
    return Span(question.texts[1][start:end], float(scores[first, last]), start, end)


def _softmax(logits: Doubles) -> Doubles:
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    scores: Doubles = raised / raised.sum(-1, keepdims=True)
    return scores
