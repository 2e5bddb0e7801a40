"""Prompts as tokens, and the characters that tokens after them add."""

import warnings
from collections.abc import Sequence

from ditto.client import Tokenizer
from ditto.client.tokens import Encoded
from ditto.errors import SetupError, TextCutWarning


def encode_prompts(
    texts: Sequence[str], max_new_tokens: int, positions: int, tokenizer: Tokenizer
) -> list[Encoded]:
    """Prompts, cut on the left such that there is room for what follows.

    A prompt that is cut is told of by a ``TextCutWarning``.
    """
    room = positions - max_new_tokens + 1
    if room < 1:
        raise SetupError(
            f"The model has {positions} positions: no room for a prompt and "
            f"{max_new_tokens} tokens."
        )
    encoded = []
    for k, text in enumerate(texts, 1):
        ids = tokenizer.encode(text).ids
        if len(ids) > room:
            warnings.warn(
                f"Prompt {k} is too long: the last {room} of its {len(ids)} tokens are "
                f"used, so that there is room for {max_new_tokens} more.",
                TextCutWarning,
                stacklevel=4,
            )
        kept = ids[-room:] or [tokenizer.pad_id]
        encoded.append(Encoded(kept, [0] * len(kept)))
    return encoded


def added_texts(
    tokenizer: Tokenizer, ids: Sequence[Sequence[int]], shown: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """What the last tokens add to the texts, and the texts: whole characters only."""
    now = [tokenizer.decode(row) for row in ids]
    whole = [
        text if not text.endswith("\ufffd") else before
        for text, before in zip(now, shown, strict=True)
    ]
    added = tuple(
        text[len(before) :] for text, before in zip(whole, shown, strict=True)
    )
    return added, whole
