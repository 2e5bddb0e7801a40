"""What the models are asked: inputs of many kinds, and ordinary texts.

All of them are rows of tokens in the end, so that what no text has, such as random
tokens, is asked in the same way. Every choice is drawn with a fixed seed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.ordinary_texts.measure import glue_and_wikitext
from ditto.client import Tokenizer
from ditto.client.tokens import Encoded
from ditto.evaluation import OrdinaryText, ordinary_texts, read_examples, read_lines

ADVERSARIAL = "adversarial"
ORDINARY_LENGTHS = (32, 128, 256)
_SHORT = ("word", "chat", "emoji", "url", "odd")
_BLOCKS = (
    (0x0391, 0x03C9), (0x0410, 0x044F), (0x05D0, 0x05EA), (0x0627, 0x064A),
    (0x0905, 0x0939), (0x0E01, 0x0E30), (0x10D0, 0x10F0), (0x3042, 0x3093),
    (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
)  # fmt: skip
"""Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Georgian, kana, Han, Hangul."""


@dataclass(frozen=True)
class Case:
    """One input of a model: its tokens, and how many they are padded to."""

    category: str
    number: int
    """Among those of its category."""
    row: Encoded
    length: int
    pair: bool = False
    ordinary: bool = False

    @property
    def key(self) -> str:
        """A name that is the same in every run."""
        return f"{self.category} {self.number}"


@dataclass(frozen=True)
class Form:
    """What inputs a model takes: tokens of a kind, so many, padded to a few lengths."""

    tokenizer: Tokenizer
    lengths: tuple[int, ...]
    longest: int

    def padded(self, row: Encoded) -> int:
        """The shortest of the lengths that holds a row."""
        return min(length for length in self.lengths if length >= len(row.ids))

    def room(self, length: int) -> int:
        """How many tokens of its own a row of ``length`` tokens may have."""
        return min(length, self.longest) - len(self.tokenizer.encode("").ids)

    def between(self, ids: Sequence[int]) -> Encoded:
        """Tokens between those that stand around every text."""
        around = self.tokenizer.encode("").ids
        row = [*around[:1], *(int(k) for k in ids), *around[1:]]
        return Encoded(row, [0] * len(row))

    def encode(self, text: OrdinaryText, length: int) -> Encoded:
        """A text, cut to ``length`` tokens; an empty one is a token of padding."""
        most = min(length, self.longest)
        row = self.tokenizer.encode(text.text, text.pair, max_length=most)
        return row if row.ids else Encoded([self.tokenizer.pad_id], [0])


def categories(data: Path | None) -> tuple[str, ...]:
    """Of the varied inputs. Without ``data`` those that come from files are missing."""
    texts = (name for name in _TEXTS if data or name not in _FILES)
    return (*texts, *_ROWS, ADVERSARIAL)


def varied_cases(form: Form, data: Path | None, each: int) -> list[Case]:
    """So many cases of each category but the adversarial one, which is searched."""
    cases = []
    for name in categories(data):
        if name in _TEXTS:
            texts = _spread(_TEXTS[name](data or Path(), each), each)
            rows = [form.encode(text, form.longest) for text in texts]
        elif name in _ROWS:
            draw = _ROWS[name]
            rows = [draw(np.random.default_rng(k), form) for k in range(each)]
        else:
            continue
        cases += [
            Case(name, k, row, form.padded(row), pair=any(row.types))
            for k, row in enumerate(rows)
        ]
    return cases


def ordinary_cases(form: Form, data: Path | None, count: int) -> list[Case]:
    """About ``count`` texts as people write them, at several lengths.

    Every second text stands alone and is padded; the others are continued by those that
    follow until the length is filled.
    """
    kinds = _ordinary_kinds(data)
    lengths = [length for length in ORDINARY_LENGTHS if length <= max(form.lengths)]
    each = -(-count // (len(kinds) * len(lengths)))
    cases = []
    for kind, texts in kinds.items():
        for length in lengths:
            starts = [k * len(texts) // each for k in range(each)]
            for k, start in enumerate(starts):
                filled = _filled(texts, start, length) if k % 2 else texts[start]
                name = f"{kind}, {length}"
                row = form.encode(OrdinaryText(name, filled), length)
                cases.append(Case(name, k, row, length, ordinary=True))
    return cases


def _ordinary_kinds(data: Path | None) -> dict[str, list[str]]:
    if data is None:
        texts = ordinary_texts()
        return {
            kind: [text.text for text in texts if text.kind == kind]
            for kind in ("sentence", "chat", "long")
        }
    news = [e for task in ("mrpc", "rte") for e in read_examples(task, data / task)]
    questions = read_examples("qnli", data / "qnli")
    reviews = read_examples("sst2", data / "sst2")
    return {
        "wikitext": _paragraphs(data),
        "news": [example.text for example in news],
        "questions": [example.text for example in questions],
        "reviews": [example.text for example in reviews],
    }


def _filled(texts: Sequence[str], start: int, length: int) -> str:
    """Texts one after another, enough for so many tokens."""
    filled = texts[start]
    k = start
    while len(filled) < 8 * length:
        k += 1
        filled += " " + texts[k % len(texts)]
    return filled


def _paragraphs(data: Path) -> list[str]:
    lines = read_lines(data / "wikitext" / "wt2.test.tokens.txt")
    return [line.strip() for line in lines if len(line.strip()) > 200]


def _spread(items: Sequence[OrdinaryText], count: int) -> list[OrdinaryText]:
    """So many of them, from beginning to end; all, if there are fewer."""
    few = min(count, len(items))
    return [items[k * len(items) // few] for k in range(few)]


def _pairs(data: Path, count: int) -> list[OrdinaryText]:
    tasks = ("mrpc", "rte", "qnli")
    each = -(-count // len(tasks))
    return [
        text
        for task in tasks
        for text in _spread(
            [
                OrdinaryText(task, example.text, example.pair)
                for example in read_examples(task, data / task)
            ],
            each,
        )
    ]


def _sentences(data: Path, count: int) -> list[OrdinaryText]:
    """Of all sets but WikiText, whose paragraphs are long ones."""
    texts = glue_and_wikitext(data, 2 * count)
    return [text for text in texts if text.kind != "wikitext"]


def _long(data: Path, count: int) -> list[OrdinaryText]:
    """Two paragraphs each: they are cut where the model's positions end."""
    lines = _paragraphs(data)
    pairs = zip(lines[::2], lines[1::2], strict=False)
    return _spread([OrdinaryText("long", f"{a} {b}") for a, b in pairs], count)


def _of_kinds(*kinds: str) -> list[OrdinaryText]:
    return [text for text in ordinary_texts() if text.kind in kinds]


def _short(_: Path, count: int) -> list[OrdinaryText]:
    """What people type, and the first words of sentences."""
    own = _of_kinds(*_SHORT)
    sentences = _of_kinds("sentence", "long", "chat", "code")
    starts = (
        OrdinaryText("short", " ".join(text.text.split()[:words]))
        for words in (1, 2, 3)
        for text in sentences
    )
    return _spread([*own, *starts], count)


def _numbers(__: Path, count: int) -> list[OrdinaryText]:
    """Integers, decimals, dates and sums of all sizes, beside those people type."""
    own = _of_kinds("number")
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(max(0, count - len(own))):
        size = int(rng.integers(1, 40))
        values = rng.integers(0, 10 ** rng.integers(1, 18, size))
        signs = rng.choice([" ", ", ", " + ", "-", "/", ".", ":", ""], size)
        parts = zip(values, signs, strict=True)
        drawn.append(OrdinaryText("numbers", "".join(f"{v}{s}" for v, s in parts)))
    return [*own, *drawn]


def _code(_: Path, count: int) -> list[OrdinaryText]:
    """Python's own library, in pieces, beside what people type."""
    own = _of_kinds("code")
    files = sorted(Path(json.__file__).parents[1].glob("*.py"))
    rng = np.random.default_rng(2)
    pieces: list[OrdinaryText] = []
    while len(own) + len(pieces) < count:
        text = files[int(rng.integers(len(files)))].read_text("utf-8", "replace")
        start = int(rng.integers(max(1, len(text))))
        piece = text[start : start + int(rng.integers(20, 1200))]
        if piece.strip():
            pieces.append(OrdinaryText("code", piece))
    return [*own, *pieces]


def _scripts(_: Path, count: int) -> list[OrdinaryText]:
    """Other scripts as people write them, and strings of their letters."""
    own = _of_kinds("script")
    rng = np.random.default_rng(3)
    drawn = []
    for k in range(max(0, count - len(own))):
        low, high = _BLOCKS[k % len(_BLOCKS)]
        letters = rng.integers(low, high + 1, int(rng.integers(2, 160)))
        words = "".join(
            chr(letter) + (" " if rng.random() < 0.15 else "") for letter in letters
        )
        drawn.append(OrdinaryText("scripts", words.strip()))
    return [*own, *drawn]


_FILES = ("pairs", "sentences", "long")
_TEXTS: dict[str, Callable[[Path, int], list[OrdinaryText]]] = {
    "pairs": _pairs,
    "sentences": _sentences,
    "long": _long,
    "short": _short,
    "numbers": _numbers,
    "code": _code,
    "scripts": _scripts,
}


def _single(rng: np.random.Generator, form: Form) -> Encoded:
    """One token, of all that there are."""
    return form.between(rng.integers(0, form.tokenizer.vocabulary, 1).tolist())


def _repeated(rng: np.random.Generator, form: Form) -> Encoded:
    """A few tokens, again and again: one of them, most often."""
    count = int(rng.choice([1, 1, 1, 2, 3]))
    few = rng.integers(0, form.tokenizer.vocabulary, count)
    return form.between(np.resize(few, _some_length(rng, form)).tolist())


def _random(rng: np.random.Generator, form: Form) -> Encoded:
    """Tokens drawn one by one."""
    count = _some_length(rng, form)
    return form.between(rng.integers(0, form.tokenizer.vocabulary, count).tolist())


def _some_length(rng: np.random.Generator, form: Form) -> int:
    """Short ones as often as long ones, by octaves."""
    most = form.room(form.longest)
    return int(np.clip(2 ** rng.uniform(0, np.log2(most + 1)), 1, most))


_ROWS: dict[str, Callable[[np.random.Generator, Form], Encoded]] = {
    "single": _single,
    "repeated": _repeated,
    "random": _random,
}
