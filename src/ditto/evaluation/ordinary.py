"""Ordinary texts: what people really type, to judge a model by.

Written for this, by hand, and apart from what plans are calibrated on: single words,
chat, emoji, numbers, code, addresses, other scripts, repetitions, pairs, paragraphs and
oddities, from 1 to 256 tokens. ``ordinary_texts.jsonl`` has one a line, with its kind.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle, islice


@dataclass(frozen=True)
class OrdinaryText:
    """A text or a pair of texts, and of what kind it is."""

    kind: str
    text: str
    pair: str | None = None


def ordinary_texts() -> list[OrdinaryText]:
    """All of them, in the order of the file."""
    lines = (files("ditto.evaluation") / "ordinary_texts.jsonl").read_text("utf-8")
    return [OrdinaryText(**json.loads(line)) for line in lines.splitlines()]


def some_texts(count: int) -> list[OrdinaryText]:
    """``count`` texts of all kinds; where there are not so many, two are joined."""
    texts = ordinary_texts()
    kinds: dict[str, list[OrdinaryText]] = {}
    for text in texts:
        kinds.setdefault(text.kind, []).append(text)
    mixed = [
        group[round_] for round_ in range(len(texts)) for group in kinds.values()
        if round_ < len(group)
    ]  # fmt: skip
    plain = [t for t in mixed if t.pair is None and len(t.text) < 200]
    pairs = zip(cycle(plain), islice(cycle(plain), 1, None), strict=False)
    joined = (OrdinaryText("joined", f"{a.text} {b.text}") for a, b in pairs)
    return [*mixed[:count], *islice(joined, max(0, count - len(mixed)))]
