"""Answers in words, on a screen and as JSON."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from ditto.client.questions import TooLong
    from ditto.client.reading import Prediction, Reals
    from ditto.files import Json

TooLongOption = Annotated[
    str,
    typer.Option(
        "--too-long",
        help="What to do with a text that is longer than the model takes: cut it and "
        "say so, or refuse it.",
    ),
]
PromptOption = Annotated[
    str | None, typer.Option("--prompt", help="What to put before every text.")
]
PromptNameOption = Annotated[
    str | None,
    typer.Option("--prompt-name", help="The same, by a name that the model has."),
]
_MOST = 3
"""Labels, and words for a mask, that are shown."""
_WIDEST = 60
"""Characters of a text that are shown."""


def chosen_too_long(name: str) -> "TooLong":
    """The value of --too-long, as the library calls it."""
    from ditto.errors import SetupError

    if name not in ("cut", "refuse"):
        raise SetupError(f"--too-long is cut or refuse, got {name!r}.")
    return "cut" if name == "cut" else "raise"


def shown_text(text: str, pair: str | None = None) -> str:
    """A text on one line, with its end left out if it is long."""
    whole = " ".join((text if pair is None else f"{text} / {pair}").split())
    return whole if len(whole) <= _WIDEST else f"{whole[: _WIDEST - 1]}…"


def shown_answer(answer: "Prediction") -> str:
    """An answer in words."""
    if answer.span is not None:
        return f"{answer.span.text}  {answer.span.score:.1%}"
    if answer.fills is not None:
        each = ({fill.word: fill.score for fill in fills} for fills in answer.fills)
        return " | ".join(map(_likeliest, each))
    if answer.tokens is not None:
        named = [word for word in answer.tokens if word.label != "O"]
        words = (f"{w.word} {w.label} {w.score:.1%}" for w in named)
        return ", ".join(words) or "no word has a label"
    if answer.probabilities is not None:
        return _likeliest(answer.probabilities)
    return _numbers(answer.output)


def _likeliest(scores: Mapping[str, float]) -> str:
    """The likeliest of several; they come in this order."""
    best = list(scores.items())[:_MOST]
    rest = ", …" if len(scores) > len(best) else ""
    return ", ".join(f"{name} {score:.1%}" for name, score in best) + rest


def _numbers(values: "Reals") -> str:
    shown = ", ".join(f"{v:+.3f}" for v in values.flat[:4])
    return f"[{shown}{', …' if values.size > 4 else ''}]"


def cut_lines(answers: "Sequence[Prediction]") -> Iterator[Text]:
    """What is said of texts that were too long."""
    for k, answer in enumerate(answers, 1):
        if answer.used_tokens < answer.token_count:
            yield Text.assemble(
                ("cut", "yellow"),
                f": text {k} is too long: {answer.used_tokens} of its "
                f"{answer.token_count} tokens were used.",
            )


def answer_as_json(answer: "Prediction", text: str, pair: str | None) -> "Json":
    """Everything that is known of an answer, what does not apply left out.

    Logits of a vocabulary are left out too: the words for a mask say what counts.
    """
    found: Json = {
        "text": text,
        "pair": pair,
        "label": answer.label,
        "probabilities": None,
        "tokens": None,
        "fills": None,
        "answer": None if answer.span is None else asdict(answer.span),
    }
    if answer.probabilities is not None:
        found["probabilities"] = dict(answer.probabilities)
    if answer.tokens is not None:
        found["tokens"] = [asdict(word) for word in answer.tokens]
    if answer.fills is not None:
        found["fills"] = [[asdict(fill) for fill in fills] for fills in answer.fills]
    found = {name: value for name, value in found.items() if value is not None}
    if answer.head.is_embedding:
        found["embedding"] = answer.output.tolist()
    elif not answer.head.is_language:
        found["logits"] = answer.output.tolist()
    return found | {
        "token_count": answer.token_count,
        "used_tokens": answer.used_tokens,
        "in_range": answer.in_range,
    }


def put_warnings_in_words() -> None:
    """Have this process show texts that are cut as sentences, each once.

    Answers in doubt are told of beside the answers, and not by a warning.
    """
    from ditto.errors import AnswerWarning, TextCutWarning

    usual = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], *place: Any, **more: Any
    ) -> None:
        if issubclass(category, TextCutWarning):
            line = Text.assemble(("cut", "yellow"), f": {message}")
            Console(stderr=True).print(line)
        else:
            usual(message, category, *place, **more)

    warnings.simplefilter("ignore", AnswerWarning)
    warnings.simplefilter("default", TextCutWarning)
    warnings.showwarning = show
