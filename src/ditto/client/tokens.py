"""Text to tokens and back, padded to few lengths.

The shape of a private computation is public. Texts are padded to one of a few lengths,
the buckets, so that a shape says little about a text and few plans serve all.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend

from ditto.errors import CheckpointError, SetupError
from ditto.models.tokenizer_files import read_tokenizer

Ints = npt.NDArray[np.int32]

BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The lengths that texts are padded to, unless others are given."""


@dataclass(frozen=True)
class Encoded:
    """A text, or a pair of texts, as tokens."""

    ids: list[int]
    types: list[int]
    offsets: list[tuple[int, int]] = field(default_factory=list)
    """Where each token begins and ends in its text, in characters."""
    words: list[int | None] = field(default_factory=list)
    """The word of its text that each token is a piece of; None of special tokens."""
    texts: list[int | None] = field(default_factory=list)
    """Which text each token is of, 0 or 1; None of special tokens."""
    cut: int = 0
    """Tokens that were cut off."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts padded on the right to one length: ids, mask and types (B, S)."""

    ids: Ints
    mask: Ints
    types: Ints
    lengths: Ints


class Tokenizer:
    """Text to tokens and back, as the model was trained. Safe to share by threads."""

    def __init__(
        self,
        backend: Backend,
        pad_id: int,
        eos_id: int | None,
        truncation_side: str,
        mask_token: str | None = None,
    ) -> None:
        self.pad_id = pad_id
        self.eos_id = eos_id
        self.mask_token = mask_token
        self._backend = backend
        self._side = truncation_side
        self._lock = threading.Lock()  # the backend keeps the truncation as state

    @classmethod
    def load(cls, folder: str | Path) -> "Tokenizer":
        """The tokenizer in a Hugging Face folder; refuses what it cannot read."""
        read = read_tokenizer(folder)
        return cls(
            read.backend,
            read.pad_id,
            read.eos_id,
            read.truncation_side,
            read.mask_token,
        )

    @cached_property
    def mask_id(self) -> int | None:
        """The token that stands for a word that is asked for."""
        return (
            None
            if self.mask_token is None
            else self._backend.token_to_id(self.mask_token)
        )

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Tokens that stand for themselves: no other letters join them."""
        added = self._backend.get_added_tokens_decoder()
        return frozenset(token for token, which in added.items() if which.special)

    @cached_property
    def vocabulary(self) -> int:
        """How many ids there are: one more than the largest."""
        return 1 + max(self._backend.get_vocab().values(), default=-1)

    def encode(
        self,
        text: str,
        pair: str | None = None,
        max_length: int | None = None,
        *,
        add_special_tokens: bool = True,
    ) -> Encoded:
        """The tokens of a text or a pair, special tokens included.

        Beyond ``max_length`` tokens are cut, from the longer text of a pair first.
        Without ``add_special_tokens`` there are none but those that the text names, as
        a chat template does.
        """
        if max_length is not None:
            least = 1
            if add_special_tokens:
                least += self._backend.num_special_tokens_to_add(pair is not None)
            if max_length < least:
                raise SetupError(
                    f"A length of {max_length} tokens leaves no room for text: with "
                    f"the special tokens it must be {least} at least."
                )
        with self._lock:
            self._backend.no_truncation()
            try:
                found = self._backend.encode(
                    text, pair, add_special_tokens=add_special_tokens
                )
                whole = len(found.ids)
                if max_length is not None and whole > max_length:
                    self._backend.enable_truncation(max_length, direction=self._side)
                    found = self._backend.encode(
                        text, pair, add_special_tokens=add_special_tokens
                    )
            except TypeError:
                raise SetupError(
                    "The text is not valid Unicode: it holds half of a surrogate "
                    "pair. Read it as UTF-8."
                ) from None
            except Exception as error:  # the library raises bare exceptions
                raise CheckpointError(f"The tokenizer failed: {error}") from None
        return Encoded(
            found.ids,
            found.type_ids,
            found.offsets,
            found.word_ids,
            found.sequence_ids,
            whole - len(found.ids),
        )

    def decode(self, ids: Sequence[int] | Ints) -> str:
        """The text of tokens, special tokens left out."""
        numbers = [int(number) for number in ids]
        wrong = next((n for n in numbers if not 0 <= n < 1 << 31), None)
        if wrong is not None:
            raise SetupError(
                f"{wrong} is not a token: ids go from 0 to {self.vocabulary - 1}."
            )
        return self._backend.decode(numbers, skip_special_tokens=True)

    def word(self, token: int) -> str:
        """A token as it is read by itself."""
        shown = self._backend.decode([token], skip_special_tokens=False)
        return shown.strip() or str(self._backend.id_to_token(token))


def bucket_of(
    length: int, buckets: Sequence[int] = BUCKETS, limit: int | None = None
) -> int:
    """The smallest bucket that holds ``length`` tokens.

    ``limit`` is how many positions the model has: longer buckets shrink to it.
    """
    if not buckets or min(buckets) < 1 or (limit is not None and limit < 1):
        raise SetupError(
            f"Buckets {list(buckets)} with a limit of {limit}: there must be one at "
            "least, and all must be positive."
        )
    capped = [bucket if limit is None else min(bucket, limit) for bucket in buckets]
    if not 0 <= length <= max(capped):
        raise SetupError(
            f"A text of {length} tokens does not fit the longest bucket, "
            f"{max(capped)}: cut it when it is encoded."
        )
    return min(bucket for bucket in capped if bucket >= length)


def pad_batch(encoded: Sequence[Encoded], length: int, pad_id: int) -> Batch:
    """Texts padded on the right to ``length`` tokens."""
    shape = (len(encoded), length)
    ids = np.full(shape, pad_id, np.int32)
    mask, types = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, one in enumerate(encoded):
        count = len(one.ids)
        if not 1 <= count <= length:
            raise SetupError(
                f"Text {row} of the batch has {count} tokens; there must be 1 to "
                f"{length}."
            )
        ids[row, :count] = one.ids
        mask[row, :count] = 1
        types[row, :count] = one.types
    return Batch(ids, mask, types, mask.sum(1, dtype=np.int32))
