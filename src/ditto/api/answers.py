"""What the client learns: answers about texts, tokens as they come, finished texts."""

from dataclasses import dataclass

from ditto.client.reading import Fill, LabelledWord, Prediction, Reals, Span

__all__ = [
    "Answer",
    "Fill",
    "Generation",
    "LabelledWord",
    "Reals",
    "Span",
    "Token",
]


@dataclass(frozen=True, eq=False)
class Answer(Prediction):
    """What the client learns of one text, beside the float model's answer."""

    difference: float | None = None
    """To the float model's answer, relative to its size, where that is known."""
    cosine: float | None = None
    """Of an embedding and the float model's, where that is known."""
    doubt: str | None = None
    """Why the answer is not to be trusted, if it is not."""
    wide: bool = False
    """Whether it came from the plan with wide margins, asked when a value had left the
    range of the usual one."""


@dataclass(frozen=True)
class Token:
    """One generated token of each prompt, and the text it adds.

    A text that has ended is continued with padding, which adds nothing.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    doubts: tuple[str | None, ...] = ()
    """For each prompt, why its token is not to be trusted, if it is not."""
    in_range: bool | None = None
    """As of an ``Answer``, of all prompts together."""
    wide: bool = False
    """As of an ``Answer``."""


@dataclass(frozen=True)
class Generation:
    """What was generated for one prompt."""

    text: str
    """What follows the prompt."""
    ids: tuple[int, ...]
    """Its tokens; the last one ends the text if it has ended."""
    doubts: tuple[str | None, ...]
    """For each token, why it is not to be trusted, if it is not."""
    in_range: bool | None = None
    """As of an ``Answer``, of all tokens together."""
