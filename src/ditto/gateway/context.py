"""What all endpoints share."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ditto.client.answering import Answering, ModelCard
from ditto.errors import UnknownModelError
from ditto.gateway.admission import Admission
from ditto.gateway.errors import invalid
from ditto.gateway.metrics import Metrics
from ditto.gateway.work import Workers
from ditto.models.chat_template import ChatTemplate


@dataclass(frozen=True)
class Settings:
    """How a gateway behaves."""

    max_running: int = 16
    """Requests that are asked of the parties at a time."""
    max_waiting: int = 32
    """Requests that wait besides; more are refused."""
    timeout: float = 600.0
    """Seconds within which the parties must have answered."""
    keep_alive: float = 10.0
    """Seconds of silence after which a stream says that it lives: LlamaIndex gives up
    after 60."""
    chat_tokens: int = 256
    """Tokens of an answer in a conversation, unless the request says how many."""
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Names under which the gateway may be called; see ``guard``."""
    api_keys: tuple[bytes, ...] = field(default=(), repr=False)
    """One of which a request must have, if there are any."""


class Gateway:
    """Models that can be asked, and who asks them."""

    def __init__(self, answering: Answering, settings: Settings) -> None:
        self.answering, self.settings = answering, settings
        self.metrics = Metrics()
        running = settings.max_running
        admission = Admission(running, settings.max_waiting, self.metrics)
        self.workers = Workers(running, admission)
        self._templates: dict[str, ChatTemplate] = {}

    async def cards(self) -> list[ModelCard]:
        """The models that there are."""
        return await asyncio.to_thread(self.answering.models)

    async def card(self, name: str) -> ModelCard:
        """A model by its name."""
        cards = await self.cards()
        for card in cards:
            if card.name == name:
                return card
        names = ", ".join(repr(card.name) for card in cards) or "none"
        raise UnknownModelError(f"There is no such model here; there are: {names}.")

    async def count_tokens(
        self,
        card: ModelCard,
        texts: Sequence[str],
        param: str,
        more: int = 0,
        *,
        add_special_tokens: bool = True,
    ) -> list[int]:
        """Tokens of texts; refuses one that is too long, with ``more`` to follow."""
        count = partial(
            self.answering.count_tokens,
            card.name,
            add_special_tokens=add_special_tokens,
        )

        def counted() -> list[int]:
            return [count(text) for text in texts]

        counts = await asyncio.to_thread(counted)
        for k, tokens in enumerate(counts, 1):
            if tokens + more > card.max_tokens:
                wanted = f" and {more} more are asked for" if more else ""
                raise invalid(
                    f"This model takes {card.max_tokens} tokens at most; text {k} has "
                    f"{tokens}{wanted}.",
                    param,
                    "context_length_exceeded",
                )
        return counts

    def template(self, card: ModelCard) -> ChatTemplate:
        """The chat template of a model, read once."""
        if card.chat_template is None:
            raise invalid(
                f"The model {card.name!r} has no chat template: it continues texts. "
                "Use /v1/completions.",
                "model",
                "no_chat_template",
            )
        if card.digest not in self._templates:
            self._templates[card.digest] = ChatTemplate(card.chat_template)
        return self._templates[card.digest]

    def close(self) -> None:
        """Take no more requests."""
        self.workers.close()
