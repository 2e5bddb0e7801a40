"""Sample arguments that plans are calibrated on: what a model is likely to be asked.

Never what a client asks: the owner of a model makes plans before anyone does.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ditto.client.tokens import Encoded, Tokenizer
from ditto.errors import SetupError
from ditto.owner.sample_text import ODD, REQUESTS, SENTENCES

if TYPE_CHECKING:
    from ditto.owner.conversations import Conversations

Text = str | tuple[str, str]
"""A text, or a pair of texts."""

MOST_TOKENS, FEWEST_ROWS, MOST_ROWS = 6144, 24, 64
"""Rows that a plan is calibrated on: as many as have so many tokens, within limits."""


class Samples(ABC):
    """A source of token rows."""

    pad_id: int = 0

    @abstractmethod
    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """Sample number k, of at most ``length`` tokens."""

    def rows(self, length: int) -> int:
        """How many rows a plan of this length is calibrated on."""
        return min(max(MOST_TOKENS // length, FEWEST_ROWS), MOST_ROWS)


class TextSamples(Samples):
    """Rows of texts, alone and as many as fill the row, rows of one token again and
    again, and rows of random tokens, few and as many as there is room for.

    The owner's own texts, if there are any, stand in for the sentences; what people
    type besides, and no owner thinks of, is always there. Beside these rows a chat
    model has half as many ``conversations`` of the same texts.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        texts: Sequence[Text] | None = None,
        conversations: "Conversations | None" = None,
    ) -> None:
        if isinstance(texts, str):
            raise SetupError("calibration takes a list of texts, such as [text].")
        self._tokenizer = tokenizer
        self.pad_id = tokenizer.pad_id
        given = SENTENCES if texts is None else texts
        for k, text in enumerate(given, 1):
            if not _is_text(text):
                raise SetupError(
                    f"Text {k} of calibration is {text!r:.80}; it is a str, or a pair "
                    "of them."
                )
        self._pairs = [text for text in given if not isinstance(text, str)]
        self._own = [
            part
            for text in given
            for part in ((text,) if isinstance(text, str) else text)
        ]
        if not self._own:
            raise SetupError("Calibration needs at least one text.")
        self._given = texts is not None
        self._conversations = conversations
        self._turns: tuple[str, ...] = _OWN_TURNS if self._given else _TURNS
        if conversations is not None:
            self._turns += _CHAT_TURNS

    def rows(self, length: int) -> int:
        """See Samples: more, if the owner has many texts, and for conversations."""
        own = 2 * len(self._own) if self._given else 0
        rows = min(max(super().rows(length), own), MOST_ROWS)
        return rows * len(self._turns) // len(_TURNS)

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """See Samples."""
        turn, n = self._turns[k % len(self._turns)], k // len(self._turns)
        if turn == "random":
            return self._random(k, length, pairs=pairs)
        if turn == "repeated":
            return self._repeated(k, n, length, pairs=pairs)
        texts = ODD if "odd" in turn else self._own
        place = n + len(texts) * (k % len(self._turns)) // len(self._turns)
        if self._conversations is not None and turn.startswith("chat"):
            if "asked" in turn and not self._given:
                texts = REQUESTS
            said = [texts[(place + j) % len(texts)] for j in range(len(texts))]
            filled = turn.endswith("filled")
            ids = self._conversations.ids(n, said, length, filled=filled)
            return Encoded(ids, _types(len(ids), pairs))
        one, other = (texts[(place + j) % len(texts)] for j in (0, 1))
        if turn == "own" and pairs and self._pairs:
            one, other = self._pairs[place % len(self._pairs)]
        if turn.endswith("filled"):
            many = [texts[(place + j) % len(texts)] for j in range(len(texts))]
            while sum(len(text) for text in many) < 12 * length:
                many += many
            one = " ".join(many)[: 12 * length]
        second = other if pairs else None
        return self._tokenizer.encode(one, second, max_length=length)

    def _random(self, k: int, length: int, *, pairs: bool) -> Encoded:
        """Random tokens: as many as fit, a few, or any number of them."""
        rng = np.random.default_rng(k)
        room = self._room(length)
        n = k // len(self._turns)
        most = min(room, _A_FEW) if n % 3 == 1 else room
        full = n % 3 == 0
        count = room if full else int(rng.integers(min(1, room), most + 1))
        drawn = rng.integers(0, self._tokenizer.vocabulary, count).tolist()
        return self._between(drawn, length, pairs=pairs)

    def _repeated(self, k: int, n: int, length: int, *, pairs: bool) -> Encoded:
        """One token through the whole row: one that people type, or any."""
        rng = np.random.default_rng(k)
        token = int(rng.integers(0, self._tokenizer.vocabulary))
        if n % 2 == 0:
            ends = len(self._tokenizer.encode("", max_length=length).ids)
            ids = self._tokenizer.encode(ODD[n % len(ODD)], max_length=length).ids
            token = ids[min(1, len(ids) - 1)] if len(ids) > ends else token
        return self._between([token] * self._room(length), length, pairs=pairs)

    def _room(self, length: int) -> int:
        return max(0, length - len(self._tokenizer.encode("", max_length=length).ids))

    def _between(self, tokens: list[int], length: int, *, pairs: bool) -> Encoded:
        """Tokens between those that stand around every text."""
        around = self._tokenizer.encode("", max_length=length).ids
        ids = [*around[:1], *tokens, *around[1:]]
        return Encoded(ids, _types(len(ids), pairs))


_A_FEW = 3
_TURNS = ("own", "odd", "own filled", "repeated", "own", "odd filled", "odd", "random")
_OWN_TURNS = (
    "own", "odd", "own filled", "repeated", "own", "odd filled", "own", "random",
)  # fmt: skip

_CHAT_TURNS = ("chat asked", "chat odd", "chat asked filled", "chat own")


class RandomSamples(Samples):
    """Full rows of random tokens, for models that have learnt nothing."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def rows(self, length: int) -> int:
        """See Samples: they are all alike."""
        del length
        return 16

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """See Samples."""
        rng = np.random.default_rng(k)
        ids = rng.integers(0, self._vocabulary, length).tolist()
        return Encoded(ids, _types(length, pairs))


def _types(length: int, pairs: bool) -> list[int]:
    return [int(pairs and 2 * i >= length) for i in range(length)]


def _is_text(text: object) -> bool:
    parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
    return all(isinstance(part, str) for part in parts)
