"""Many kinds of prompts to a language model: which leave their range, and who says so.

\b
    python -m benchmarks.varied_prompts MODEL_DIR --data DATA --count 1000

Prompts are the ordinary texts (words, chat, emoji, numbers, code, addresses, other
scripts, repetitions, sentences) and, up to ``--count``, texts of GLUE and WikiText in
DATA. Each is cut to 32 tokens and computed in float and in the simulator, which knows
what the parties would note. A value that leaves its range without a note is silent. The
next token is the float model's, or one as good as it: less than 0.1 in logits below.
``--tiny`` does it with a random Llama of two layers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks import show
from benchmarks.ordinary_texts.measure import glue_and_wikitext
from benchmarks.tiny_models import llama_folder
from ditto.api import Phase, Pretrained, from_pretrained
from ditto.api.backends import FloatBackend, SimulatedBackend
from ditto.cli.progress import Stages, stages
from ditto.client.tokens import Encoded, pad_batch
from ditto.errors import SetupError
from ditto.evaluation import OrdinaryText, ordinary_texts
from ditto.files import Json
from ditto.simulation import Simulated

OUT = Path("docs/results/varied_prompts.json")
LENGTH = 32
AT_ONCE = 16
TIE = 0.1
"""Logits this close may fall either way."""


def main(
    model_dir: Annotated[
        Path | None, typer.Argument(help="The model's folder.", exists=True)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A folder with GLUE and WikiText.", exists=True)
    ] = None,
    count: Annotated[int, typer.Option(help="How many prompts.", min=1)] = 1000,
    tiny: Annotated[bool, typer.Option(help="A random model of two layers.")] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Prompts that leave their range, and next tokens that differ from float's."""
    if model_dir is None and not tiny:
        raise SetupError("Name a MODEL_DIR, or take --tiny.")
    texts = ordinary_texts()
    if len(texts) < count and data is not None:
        texts += glue_and_wikitext(data, count - len(texts))
    if len(texts) < count:
        raise SetupError(f"There are {len(texts)} texts, not {count}; name --data.")
    with TemporaryDirectory() as folder, stages(verbose=True) as shown:
        model = from_pretrained(
            model_dir or llama_folder(Path(folder)), mode="float", check=False
        )
        rows, headroom = _measured(model, texts[:count], shown)
    results: Json = {**_results(rows), "headroom_bits": headroom}
    results["kinds"] = {
        kind: _results([row for row in rows if row.kind == kind])
        for kind in sorted({row.kind for row in rows})
    }
    show.write(json_file, results)
    cells = [
        [kind, *(f"{value}" for value in found.values())]
        for kind, found in {"all": _results(rows), **results["kinds"]}.items()
    ]
    show.show("Varied prompts", ["kind"], [*_results(rows)], cells, None)


@dataclass(frozen=True)
class _Row:
    kind: str
    out_of_range: bool
    """Whether a value left its range and reached the answer."""
    noted: bool
    """Whether the parties would say so."""
    same: bool
    """Whether the next token is the float model's, or as good as that."""


def _results(rows: Sequence[_Row]) -> Json:
    return {
        "prompts": len(rows),
        "out_of_range": sum(row.out_of_range for row in rows),
        "silent": sum(row.out_of_range and not row.noted for row in rows),
        "noted": sum(row.noted for row in rows),
        "same_token": sum(row.same for row in rows),
        "other_token": sum(not (row.same or row.noted) for row in rows),
    }


def _measured(
    model: Pretrained, texts: Sequence[OrdinaryText], shown: Stages
) -> tuple[list[_Row], dict[str, float]]:
    """All rows, and the least headroom of every part of the model."""
    length = min(LENGTH, model.max_tokens)
    job = model.computation(Phase.PREFILL, 1, length)
    plain = FloatBackend(model.model)
    simulator = SimulatedBackend(model.plans, shown.stage)
    rows: list[_Row] = []
    for start in range(0, len(texts), AT_ONCE):
        shown.count("prompt", start, len(texts))
        some = texts[start : start + AT_ONCE]
        encoded = [Encoded(ids, [0] * len(ids)) for ids in _tokens(model, some, length)]
        batch = pad_batch(encoded, length, model.tokenizer.pad_id)
        exact = plain.run(job, (batch.ids, batch.lengths)).result
        found = simulator.simulate_each(job, (batch.ids, batch.lengths))
        rows += [
            _row(text, each, logits)
            for text, each, logits in zip(some, found, exact, strict=True)
        ]
    bits = {part: round(head.bits, 2) for part, head in simulator.headroom.items()}
    return rows, bits


def _tokens(
    model: Pretrained, texts: Sequence[OrdinaryText], length: int
) -> Iterator[list[int]]:
    for text in texts:
        ids = model.tokenizer.encode(" ".join(filter(None, [text.text, text.pair]))).ids
        yield ids[:length] or [model.tokenizer.pad_id]


def _row(text: OrdinaryText, found: Simulated, exact: np.ndarray) -> _Row:
    logits, _ = found.result
    chosen = int(np.argmax(np.asarray(logits)[0]))
    same = bool(exact.max() - exact[chosen] < TIE)
    return _Row(text.kind, found.broken, not found.in_range, same)


if __name__ == "__main__":
    show.run(main, __doc__)
