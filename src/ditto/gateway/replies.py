"""The two forms in which OpenAI's API gives generated text."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ditto.client.answering import ModelCard
from ditto.files import Json


@dataclass(frozen=True)
class Piece:
    """What one token adds to the answer to one prompt, or how that answer ends."""

    prompt: int
    text: str
    tokens: int = 0
    in_range: bool | None = None
    finish_reason: str | None = None


@dataclass(frozen=True)
class Choice:
    """A whole answer."""

    text: str
    finish_reason: str


@dataclass(frozen=True)
class Usage:
    """Tokens of the prompts and of the answers."""

    prompt: int
    completion: int

    def document(self) -> Json:
        """As OpenAI writes it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }


class ReplyForm(ABC):
    """Writes the answer to one request."""

    whole_name: str
    chunk_name: str
    prefix: str

    def __init__(self, card: ModelCard) -> None:
        self._envelope: Json = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": card.name,
            "system_fingerprint": card.digest,
        }

    def whole(
        self, choices: Sequence[Choice], usage: Usage, in_range: bool | None
    ) -> Json:
        """The answer when it is finished."""
        return {
            **self._envelope,
            "object": self.whole_name,
            "choices": [self._whole_choice(k, c) for k, c in enumerate(choices)],
            "usage": usage.document(),
            "ditto": {"in_range": in_range},
        }

    def chunks(self, piece: Piece, *, begins: bool) -> list[Json]:
        """What a stream says of a piece."""
        choices: list[Json] = []
        if begins:
            choices += self._opening_choices(piece.prompt)
        if piece.text:
            choices.append(self._chunk_choice(piece.prompt, piece.text, None))
        if piece.finish_reason is not None:
            choices.append(self._chunk_choice(piece.prompt, None, piece.finish_reason))
        return [self._chunk([choice]) for choice in choices]

    def usage_chunk(self, usage: Usage) -> Json:
        """The last chunk, if it was asked for."""
        return self._chunk([]) | {"usage": usage.document()}

    def _chunk(self, choices: list[Json]) -> Json:
        return {**self._envelope, "object": self.chunk_name, "choices": choices}

    def _opening_choices(self, index: int) -> list[Json]:  # noqa: ARG002
        return []

    @abstractmethod
    def _whole_choice(self, index: int, choice: Choice) -> Json:
        """One choice of a finished answer."""

    @abstractmethod
    def _chunk_choice(self, index: int, text: str | None, finish: str | None) -> Json:
        """One choice of a chunk."""


class CompletionForm(ReplyForm):
    """Of /v1/completions."""

    whole_name = chunk_name = "text_completion"
    prefix = "cmpl"

    def _whole_choice(self, index: int, choice: Choice) -> Json:
        return self._chunk_choice(index, choice.text, choice.finish_reason)

    def _chunk_choice(self, index: int, text: str | None, finish: str | None) -> Json:
        return {
            "index": index,
            "text": text or "",
            "logprobs": None,
            "finish_reason": finish,
        }


class ChatForm(ReplyForm):
    """Of /v1/chat/completions."""

    whole_name, chunk_name = "chat.completion", "chat.completion.chunk"
    prefix = "chatcmpl"

    def _opening_choices(self, index: int) -> list[Json]:
        return [_delta(index, {"role": "assistant", "content": ""}, None)]

    def _whole_choice(self, index: int, choice: Choice) -> Json:
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
        }

    def _chunk_choice(self, index: int, text: str | None, finish: str | None) -> Json:
        return _delta(index, {} if text is None else {"content": text}, finish)


def _delta(index: int, delta: Json, finish: str | None) -> Json:
    return {
        "index": index,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish,
    }
