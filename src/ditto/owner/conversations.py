"""Conversations in a model's chat template, to calibrate with.

A chat model never sees a bare sentence: the template's own tokens stand around every
turn, and values go further at some of them than at any word.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from ditto.client.prefix import prefix_tokens
from ditto.client.tokens import Tokenizer
from ditto.errors import ChatTemplateError
from ditto.models.chat_files import ChatFiles
from ditto.models.chat_template import ChatTemplate, system_prefix
from ditto.owner.sample_text import ANSWERS

Message = Mapping[str, str]

_DAY = datetime(2024, 7, 26)
"""What a template takes for today: plans are the same every day."""
_SYSTEMS = (
    "You are a helpful assistant.",
    "Answer in one short sentence.",
    "You translate what the user writes. Keep names, numbers and code as they are.",
    "You are a support agent of a furniture shop. Be polite, and never promise a date.",
)
_LETTERS = 6
"""Of a token, at most nearly always: so many fill a row."""


class Conversations:
    """Renders texts as what users say, with answers between them.

    With a ``public_prefix`` that every conversation begins with, tokens up to the first
    thing said are left out.
    """

    def __init__(
        self, chat: ChatFiles, tokenizer: Tokenizer, *, public_prefix: bool = False
    ) -> None:
        self._template = ChatTemplate(chat.template or "", now=lambda: _DAY)
        self._special_tokens = chat.special_tokens
        self._tokenizer = tokenizer
        self._has_prefix = public_prefix
        start = system_prefix(chat, "")
        known = public_prefix and start
        self._left_out = len(prefix_tokens(tokenizer, start)) if known else 0

    def ids(
        self, n: int, said: Sequence[str], length: int, *, filled: bool
    ) -> list[int]:
        """Conversation number n, of the first of the texts; of many if it is to be
        ``filled``. At most ``length`` tokens: its beginning."""
        turns = 1 + n % 2
        if filled:
            letters = sum(map(len, said)) + len(said)
            turns = 1 + _LETTERS * length * len(said) // max(letters, 1)
        messages: list[Message] = []
        for k in range(min(turns, length)):
            if k:
                answer = ANSWERS[(n + k) % len(ANSWERS)]
                messages.append({"role": "assistant", "content": answer})
            messages.append({"role": "user", "content": said[k % len(said)]})
        system = _SYSTEMS[n // 4 % len(_SYSTEMS)] if n % 4 >= 2 else ""
        text = self._rendered(messages, "" if self._has_prefix else system)
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids[self._left_out :][:length] or [self._tokenizer.pad_id]

    def _rendered(self, messages: list[Message], system: str) -> str:
        """With what the system says, if the template has a place for it; a template
        that refuses several turns gets the first alone."""
        first: list[Message] = [{"role": "system", "content": system}] if system else []
        for tried in ([*first, *messages], messages):
            with suppress(ChatTemplateError):
                return self._template.render(tried, self._special_tokens)
        return self._template.render(messages[:1], self._special_tokens)
