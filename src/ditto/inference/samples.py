"""Sample arguments that plans are calibrated on: what a model is likely to be asked.

Never what a client asks: the owner of a model makes plans before anyone does.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ditto.client.tokens import Encoded, Tokenizer


class Samples(ABC):
    """A source of token rows."""

    pad_id: int = 0
    count: int = 1
    """How many different texts there are."""

    @abstractmethod
    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """Sample number k, of at most ``length`` tokens."""


class TextSamples(Samples):
    """Rows of texts: every other row one text, the others as many as fill it."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        self._tokenizer, self._texts = tokenizer, list(texts)
        self.pad_id = tokenizer.pad_id
        self.count = len(self._texts)

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """See Samples."""
        texts = self._texts
        text = texts[k % len(texts)]
        if k % 2:
            many = [texts[(k + j) % len(texts)] for j in range(len(texts))]
            text = " ".join(many)[: 12 * length]
        pair = texts[(k + 1) % len(texts)] if pairs else None
        return self._tokenizer.encode(text, pair, max_length=length)


class RandomSamples(Samples):
    """Full rows of random tokens, for models that have learnt nothing."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def row(self, k: int, length: int, *, pairs: bool = False) -> Encoded:
        """See Samples."""
        rng = np.random.default_rng(k)
        ids = rng.integers(0, self._vocabulary, length).tolist()
        types = [int(pairs and 2 * i >= length) for i in range(length)]
        return Encoded(ids, types)
