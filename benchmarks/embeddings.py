"""Embeddings beside those of sentence-transformers itself, on ordinary texts.

    python -m benchmarks.embeddings MODEL_DIR --limit 50 --mode mpc

The model is a folder of sentence-transformers; needs that package. Texts are
``ditto.evaluation.ordinary_texts()`` of up to 256 tokens, single ones: no plan is
calibrated on them. Norms differ by rounding alone where the folder normalises.
"""

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks import show
from ditto import __version__, from_pretrained
from ditto.api import Mode, Pretrained
from ditto.api.doubt import STATED_ERROR
from ditto.cli.progress import stages
from ditto.cli.report import console
from ditto.cli.show import table
from ditto.client.reading import cosine_of
from ditto.errors import SetupError
from ditto.evaluation import ordinary_texts

LONGEST = 256
LEAST_COSINE = 1 - STATED_ERROR**2 / 2
"""Of a vector that is off by the stated error, at a right angle."""


@dataclass(frozen=True)
class Compared:
    """One text: its tokens, the cosine of the two embeddings, and their norms."""

    text: str
    tokens: int
    cosine: float
    norm: float
    expected_norm: float

    @property
    def norm_difference(self) -> float:
        return abs(self.norm - self.expected_norm)


def chosen_texts(model: Pretrained, limit: int) -> list[str]:
    """Texts of all lengths, the short ones first."""
    lengths = {
        text.text: len(model.tokenizer.encode(text.text).ids)
        for text in ordinary_texts()
        if text.pair is None
    }
    fitting = [text for text, length in lengths.items() if length <= LONGEST]
    fitting.sort(key=lambda text: lengths[text])
    places = np.linspace(0, len(fitting) - 1, min(limit, len(fitting)))
    return [fitting[int(place)] for place in places]


def compare(model: Pretrained, network: Any, texts: list[str]) -> list[Compared]:
    """Our embeddings and theirs."""
    rows = []
    for text in texts:
        answer = model.predict([text])[0]
        expected = np.asarray(network.encode(text))
        norms = (float(np.linalg.norm(x)) for x in (answer.embedding, expected))
        cosine = cosine_of(answer.embedding, expected)
        rows.append(Compared(text, answer.token_count, cosine, *norms))
    return rows


def main(
    model_dir: Annotated[Path, typer.Argument(help="A sentence-transformers folder.")],
    limit: Annotated[int, typer.Option(help="How many texts.", min=1)] = 50,
    mode: Annotated[str, typer.Option(help="mpc, simulate or float.")] = "mpc",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all rows here.")
    ] = None,
) -> None:
    """The least cosine with sentence-transformers, and the largest norm difference."""
    try:
        theirs = import_module("sentence_transformers")
    except ImportError:
        raise SetupError(
            "This needs sentence-transformers: pip install sentence-transformers."
        ) from None
    chosen: Mode = mode  # type: ignore[assignment]
    network = theirs.SentenceTransformer(str(model_dir), device="cpu")
    with (
        stages() as shown,
        from_pretrained(
            model_dir, mode=chosen, on_stage=shown.stage, on_part=shown.part
        ) as model,
    ):
        rows = compare(model, network, chosen_texts(model, limit))
    figures = {
        "texts": float(len(rows)),
        "longest, tokens": float(max(row.tokens for row in rows)),
        "least cosine": min(row.cosine for row in rows),
        "mean cosine": float(np.mean([row.cosine for row in rows])),
        "largest norm difference": max(row.norm_difference for row in rows),
    }
    shown_rows = [[name, f"{value:.7g}"] for name, value in figures.items()]
    title = f"{model_dir.name} beside sentence-transformers, {mode}"
    console().print(table(title, ["figure"], ["value"], shown_rows))
    if json_file:
        data = {
            "version": __version__,
            "mode": mode,
            "figures": figures,
            "rows": [asdict(row) for row in rows],
        }
        json_file.write_text(json.dumps(data, indent=1) + "\n")
    if figures["least cosine"] < LEAST_COSINE:
        raise typer.Exit(3)


if __name__ == "__main__":
    show.run(main)
