"""A public prefix as tokens: prompts begin with them, and go on in private.

Letters at the end of a text may make a token with what follows. So a prefix ends with
its last special token, which nothing joins, or else before its last word. A prompt is
cut behind these tokens: its answer is the same as without a prefix.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ditto.errors import SetupError

if TYPE_CHECKING:
    from ditto.client.tokens import Tokenizer


def prefix_tokens(tokenizer: "Tokenizer", text: str) -> list[int]:
    """The tokens that every prompt has which begins with this text.

    A text that names the first special token itself, as chat templates do, does not get
    it twice.
    """
    encoded, bare = (
        tokenizer.encode(text, add_special_tokens=special) for special in (True, False)
    )
    if encoded.ids[:1] == bare.ids[:1]:
        encoded = bare
    ids, words = encoded.ids, encoded.words
    special = tokenizer.special_ids
    end = max((k + 1 for k, token in enumerate(ids) if token in special), default=0)
    if end < 2 and words:
        end = words.index(words[-1])
    if not end:
        raise SetupError(
            "The public prefix has one word at most, to which prompts may add letters. "
            "Take a longer one, or one that ends with a special token."
        )
    return ids[:end]


def after_prefix(ids: Sequence[int], prefix: Sequence[int]) -> list[int]:
    """What a prompt has after the prefix; refuses one that does not begin with it."""
    count = len(prefix)
    if list(ids[:count]) != list(prefix):
        raise SetupError(
            f"The prompt does not begin with the {count} tokens of the model's public "
            "prefix. Begin it with them, such as with the same system message, or ask "
            "a model without a prefix."
        )
    if count and len(ids) == count:
        raise SetupError("The prompt ends with the public prefix: nothing is private.")
    return list(ids[count:])
