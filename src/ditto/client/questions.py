"""Texts as they are asked: with a prompt before them, as tokens, not too long."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ditto.errors import SetupError, TextCutWarning
from ditto.models import Head
from ditto.models.sentence import SentenceEncoding

if TYPE_CHECKING:
    from ditto.client.tokens import Encoded, Tokenizer

TooLong = Literal["cut", "raise"]
"""What becomes of a text that is longer than the model takes."""


@dataclass(frozen=True)
class Question:
    """A text, or a pair of texts, and its tokens."""

    texts: tuple[str, ...]
    """With the prompt, if there is one."""
    encoded: "Encoded"


@dataclass(frozen=True)
class Asked:
    """How texts are to be asked."""

    max_length: int
    """The most tokens."""
    too_long: TooLong = "cut"
    prompt: str | None = None
    prompt_name: str | None = None


def make_questions(
    texts: Sequence[str],
    text_pairs: Sequence[str] | None,
    tokenizer: "Tokenizer",
    head: Head,
    asked: Asked,
    encoding: SentenceEncoding,
) -> list[Question]:
    """Texts or pairs as tokens; refuses what the head can say nothing of."""
    if asked.too_long not in ("cut", "raise"):
        raise SetupError(f"too_long={asked.too_long!r} is neither 'cut' nor 'raise'.")
    _check_texts(texts, "texts")
    if text_pairs is not None:
        _check_texts(text_pairs, "text_pairs")
        if len(text_pairs) != len(texts):
            raise SetupError(
                f"There are {len(texts)} texts and {len(text_pairs)} second texts."
            )
    if head is Head.QUESTION_ANSWERING and text_pairs is None:
        raise SetupError(
            "A question needs a text that has the answer: predict([question], [text])."
        )
    before = encoding.prompt(asked.prompt, asked.prompt_name)
    seconds: Sequence[str | None] = text_pairs or [None] * len(texts)
    questions = []
    for k, (text, second) in enumerate(zip(texts, seconds, strict=True), 1):
        whole = before + text
        encoded = tokenizer.encode(whole, second, max_length=asked.max_length)
        pair = (whole,) if second is None else (whole, second)
        if head is Head.FILL_MASK:
            _check_mask(pair, encoded, tokenizer, k)
        if encoded.cut:
            _too_long(k, encoded, asked)
        questions.append(Question(pair, encoded))
    return questions


def _check_texts(texts: Sequence[str], name: str) -> None:
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise SetupError(f"{name} is a list of texts, such as [text].")
    for k, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise SetupError(
                f"Text {k} of {name} is of type {type(text).__name__}; a text is a str."
            )


def _check_mask(
    texts: tuple[str, ...], encoded: "Encoded", tokenizer: "Tokenizer", k: int
) -> None:
    if tokenizer.mask_id in encoded.ids and tokenizer.mask_id is not None:
        return
    token = tokenizer.mask_token
    if token is None:
        raise SetupError("The tokenizer has no mask token: no word can be asked for.")
    if any(token in text for text in texts):
        raise SetupError(
            f"The {token} of text {k} lies beyond the {len(encoded.ids)} tokens that "
            "the model takes. Shorten the text before it."
        )
    raise SetupError(
        f"Text {k} has no {token}: put it where a word is asked for, as in "
        f"'The cat sat on the {token}.'"
    )


def _too_long(k: int, encoded: "Encoded", asked: Asked) -> None:
    used = len(encoded.ids)
    whole = used + encoded.cut
    if asked.too_long == "raise":
        raise SetupError(
            f"Text {k} has {whole} tokens, more than the {asked.max_length} that are "
            "taken. Shorten it, or ask with too_long='cut' to use its beginning."
        )
    warnings.warn(
        f"Text {k} is too long: {used} of its {whole} tokens are used, the rest is cut "
        "off.",
        TextCutWarning,
        stacklevel=4,
    )
