"""What the three subcommands measure, as data."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ditto.api import Answer, Pretrained
from ditto.client.tokens import Encoded
from ditto.errors import AnswerWarning, CapacityError
from ditto.evaluation import OrdinaryText, cosine, ordinary_texts

LEAST_COSINE = 0.999
"""From here on an embedding is right."""
Progress = Callable[[str, int, int], None]


@cache
def own_kinds() -> frozenset[str]:
    """The kinds of the ordinary texts."""
    return frozenset(text.kind for text in ordinary_texts())


@dataclass(frozen=True)
class Measured:
    """One text: what the simulator reported, and what the parties answered."""

    kind: str
    text: str
    tokens: int
    length: int
    """Of the bucket."""
    report: str | None
    """Where a value left its range in the simulator, if one did."""
    simulated: float | None
    """The cosine of the simulator's embedding to the float model's, if it has one."""
    cosine: float | None
    """The same of the parties', if they were asked."""
    doubt: str | None
    """What the private answer said of itself."""

    @property
    def wrong(self) -> bool:
        """Whether the parties' answer is not the float model's."""
        return self.cosine is not None and self.cosine < LEAST_COSINE

    def as_json(self) -> dict[str, Any]:
        """Short enough to be kept; of the texts, those that are ours."""
        own = self.kind in own_kinds()
        rounded = {
            name: None if value is None else round(value, 6)
            for name, value in (("simulated", self.simulated), ("cosine", self.cosine))
        }
        return {**asdict(self), "text": self.text[:60] if own else "", **rounded}


def in_order(model: Pretrained, texts: Sequence[OrdinaryText]) -> list[OrdinaryText]:
    """By length, so that every plan is made once and can be forgotten."""
    return sorted(texts, key=lambda text: len(tokens_of(model, text)))


def tokens_of(model: Pretrained, text: OrdinaryText) -> list[int]:
    """The tokens of a text, not cut."""
    return model.tokenizer.encode(text.text, text.pair).ids


@dataclass(frozen=True)
class Three:
    """One model, computed by the parties, the simulator and in float."""

    parties: Pretrained
    simulator: Pretrained
    plain: Pretrained

    @classmethod
    def of(cls, model: Pretrained) -> "Three":
        """From the one that the parties compute."""
        return cls(model, model.with_mode("simulate"), model.with_mode("float"))


def measure(
    models: Three,
    text: OrdinaryText,
    length: int | None = None,
    *,
    asked: bool = True,
) -> Measured:
    """One text in float, in the simulator, and by the parties: if they are to be
    ``asked``, and in any case if the simulator reports it."""
    model, exact = models.parties, _ask(models.plain, text, length)
    report, simulated, got = None, None, None
    try:
        answer = _ask(models.simulator, text, length)
        simulated = float(cosine(answer.embedding, exact.embedding))
    except CapacityError as overflow:
        report = str(overflow).split(":", maxsplit=1)[0]
    if asked or report is not None:
        got = _ask(model, text, length)
    count = len(tokens_of(model, text))
    return Measured(
        text.kind,
        text.text,
        min(count, length or count),
        length or model.bucket(count),
        report,
        simulated,
        None if got is None else float(cosine(got.embedding, exact.embedding)),
        None if got is None else got.doubt,
    )


def _ask(model: Pretrained, text: OrdinaryText, length: int | None) -> Answer:
    pairs = None if text.pair is None else [text.pair]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # kept with the answer
        return model.predict([text.text], pairs, pad_to=length)[0]


def agreement(rows: Sequence[Measured]) -> dict[str, int]:
    """Report and truth, over the texts that the parties were asked."""
    asked = [row for row in rows if row.cosine is not None]
    return {
        "asked": len(asked),
        "reported, and wrong": sum(bool(r.report) and r.wrong for r in asked),
        "reported, but right (false alarm)": sum(
            bool(r.report) and not r.wrong for r in asked
        ),
        "not reported, but wrong (missed)": sum(
            not r.report and r.wrong for r in asked
        ),
        "not reported, and right": sum(not r.report and not r.wrong for r in asked),
    }


def glue_and_wikitext(folder: Path, count: int) -> list[OrdinaryText]:
    """So many texts of GLUE's development sets and of WikiText, spread evenly."""
    files = {
        "cola": ("sentence",), "sst2": ("sentence",), "mrpc": ("sentence1",),
        "rte": ("sentence1",), "qnli": ("sentence",),
    }  # fmt: skip
    texts_of: dict[str, list[str]] = {}
    for name, columns in files.items():
        header, *lines = (folder / name / "dev.tsv").read_text("utf-8").split("\n")
        place = header.split("\t").index(columns[0])
        texts_of[name] = [line.split("\t")[place] for line in lines if line.strip()]
    wiki = (folder / "wikitext" / "wt2.valid.tokens.txt").read_text("utf-8").split("\n")
    texts_of["wikitext"] = [line.strip() for line in wiki if len(line.strip()) > 200]
    each = -(-count // len(texts_of))
    texts = [
        OrdinaryText(name, lines[k * len(lines) // each])
        for name, lines in texts_of.items()
        for k in range(min(each, len(lines)))
    ]
    return texts[:count]


@dataclass(frozen=True)
class Continued:
    """One prompt: greedy tokens by the parties and by the float model."""

    kind: str
    text: str
    tokens: int
    same: bool
    parted: int | None
    """The first token that differs, from 1."""
    report: str | None
    doubts: int
    """Tokens that said of themselves that they are not to be trusted."""

    def as_json(self) -> dict[str, Any]:
        """Short enough to be kept."""
        return {**asdict(self), "text": self.text[:60]}


def continue_text(
    models: Three, text: OrdinaryText, tokens: int, most: int
) -> Continued:
    """The prompt, cut to ``most`` tokens, continued by all three."""
    model = models.parties
    prompt = _cut(model, text.text, most)
    exact = [t.ids[0] for t in models.plain.stream(prompt, tokens)]
    report = None
    try:
        list(models.simulator.stream(prompt, tokens))
    except CapacityError as overflow:
        report = str(overflow).split(":", maxsplit=1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # counted here
        got = list(model.stream(prompt, tokens))
    ids = [token.ids[0] for token in got]
    pairs = enumerate(zip(ids, exact, strict=False), 1)
    parted = next((k for k, (a, b) in pairs if a != b), None)
    doubts = sum(doubt is not None for token in got for doubt in token.doubts)
    return Continued(
        text.kind, prompt, len(model.tokenizer.encode(prompt).ids), parted is None,
        parted, report, doubts,
    )  # fmt: skip


def _cut(model: Pretrained, text: str, most: int) -> str:
    ids: Encoded = model.tokenizer.encode(text, max_length=most)
    return model.tokenizer.decode(ids.ids)
