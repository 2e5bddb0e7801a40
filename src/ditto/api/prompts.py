"""Prompts as tokens, and the texts that follow them."""

import warnings
from collections.abc import Sequence

from ditto.api.answers import Generation, Token
from ditto.client import Tokenizer
from ditto.client.prefix import after_prefix
from ditto.client.sampling import Sampler
from ditto.client.tokens import Encoded
from ditto.errors import SetupError, TextCutWarning
from ditto.fixedpoint import Array
from ditto.models.computation import Reveal


def encode_prompts(
    prompts: str | Sequence[str],
    max_new_tokens: int,
    positions: int,
    tokenizer: Tokenizer,
    *,
    add_special_tokens: bool = True,
    prefix: Sequence[int] = (),
) -> list[Encoded]:
    """Prompts as tokens, cut on the left such that there is room for what follows.

    A prompt that is cut is told of by a ``TextCutWarning``. All begin with ``prefix``,
    which is left out.
    """
    if max_new_tokens < 1:
        raise SetupError(
            f"At least one token is generated, got max_new_tokens={max_new_tokens}."
        )
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not texts:
        raise SetupError("generate takes one prompt or more.")
    room = positions - max_new_tokens + 1
    if room < 1:
        raise SetupError(
            f"The model takes {positions} tokens at most: no room for a prompt and "
            f"{max_new_tokens} more. Ask for fewer."
        )
    encoded = []
    for k, text in enumerate(texts, 1):
        whole = tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        ids = after_prefix(whole, prefix)
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


def finished(tokenizer: Tokenizer, tokens: Sequence[Token], k: int) -> Generation:
    """What was generated for prompt k, to where it ended."""
    ids = [token.ids[k] for token in tokens]
    eos = tokenizer.eos_id
    ids = ids[: ids.index(eos) + 1] if eos in ids else ids
    used = tokens[: len(ids)]
    doubts = tuple(token.doubts[k] for token in used)
    verdicts = {token.in_range for token in used}
    in_range = None if None in verdicts else False not in verdicts
    return Generation(tokenizer.decode(ids), tuple(ids), doubts, in_range)


def choose_tokens(result: Array, sampler: Sampler, reveal: Reveal) -> list[int]:
    """The next token of each text, from what was opened."""
    if reveal == "token":
        return [int(token) for token in result]
    return [sampler.choose(row) for row in result]


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
