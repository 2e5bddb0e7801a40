"""Who answers about texts: three parties of a deployment, or of this machine.

A gateway, a command or a program asks through this and need not know which.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ditto.client.asking import Generated
from ditto.client.out_of_range import OnOutOfRange
from ditto.client.questions import TooLong
from ditto.client.reading import Prediction
from ditto.client.sampling import Sampling
from ditto.models import Head
from ditto.plan import Audit


@dataclass(frozen=True)
class ModelCard:
    """What can be asked of a model, and what exactly runs."""

    name: str
    owner: str
    head: Head
    max_tokens: int
    digest: str
    """Of all that runs: plans, weights, tokenizer and chat template, calibration."""
    created: int
    """Seconds since 1970."""
    chat_template: str | None = None
    """As Hugging Face's Jinja text, if the model is made for conversations."""
    special_tokens: Mapping[str, str] | None = None
    """Texts that a chat template names: ``bos_token``, ``eos_token``."""


@dataclass(frozen=True)
class Party:
    """A compute party, as whoever asks knows it."""

    name: str
    organisation: str
    address: str


@dataclass(frozen=True)
class Audits:
    """What the parties prove to each other before they answer, and in how many runs."""

    audit: Audit = "off"
    chance: float = 1.0


class Answering(Protocol):
    """Models that can be asked in private. Safe to be used by several threads."""

    def models(self) -> list[ModelCard]:
        """All that can be asked now."""

    def parties(self) -> tuple[Party, ...]:
        """Who computes."""

    def audits(self) -> Audits:
        """What they prove."""

    def count_tokens(
        self, model: str, text: str, *, add_special_tokens: bool = True
    ) -> int:
        """Tokens of a text, with those that the model adds if they are wanted."""

    def predict(
        self,
        model: str,
        texts: Sequence[str],
        text_pairs: Sequence[str] | None = None,
        *,
        too_long: TooLong = "raise",
        on_out_of_range: OnOutOfRange = "retry",
        timeout: float | None = None,
    ) -> list[Prediction]:
        """Logits or embeddings, and what they say; within ``timeout`` seconds.

        A name that is none raises UnknownModelError.
        """

    def stream(
        self,
        model: str,
        prompt: str,
        tokens: int,
        sampling: Sampling | None = None,
        *,
        add_special_tokens: bool = True,
        timeout: float | None = None,
    ) -> Iterator[Generated]:
        """Tokens that follow a prompt as they come; closing it frees the state.

        A prompt that a chat template wrote has its special tokens already: without
        ``add_special_tokens`` no second one is put before it.
        """

    def close(self) -> None:
        """Let the parties go."""
