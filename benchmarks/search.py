"""Semantic search through the gateway, beside the same search with the float model.

    python -m benchmarks.search MODEL_DIR --json FILE

Starts ``ditto gateway --local``, embeds 200 sentences and 50 queries with the openai
client, and counts the queries whose nearest sentence is the float model's. Sentences
are those of the paragraphs in ``ditto.evaluation.ordinary_texts()``, which no plan is
calibrated on; with ``--pairs FILE``, a TSV with the columns sentence1, sentence2 and
label such as MRPC's, a sentence is to be found by its paraphrase.
"""

import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from benchmarks import show
from ditto import __version__, from_pretrained
from ditto.cli.progress import Stages, stages
from ditto.errors import SetupError
from ditto.evaluation import ordinary_texts

AT_ONCE = 64
"""Texts of one request."""
STARTING = 300.0
"""Seconds that a gateway has to be ready."""
Vectors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Searched:
    """How a search through the gateway compares with the float model's."""

    texts: int
    queries: int
    same_top_hit: int
    least_cosine: float
    """Of a vector and the float model's."""
    in_range: bool
    """Whether no value left its range, in all requests."""
    seconds: float
    """All requests together."""

    @property
    def share(self) -> float:
        return self.same_top_hit / self.queries


@contextmanager
def running_gateway(
    folder: Path, *arguments: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """``ditto gateway`` at a free port; what it prints goes to files of the folder."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603  (the arguments are ours)
            [sys.executable, "-c", "from ditto.cli import main; main()", "gateway",
             *arguments, "--port", "0"],
            stdout=stdout, stderr=stderr,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + STARTING
        ready = re.compile(r"^ready: .*, at (http://\S+)/v1; ", re.M)
        while (said := ready.search(out.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SetupError(f"The gateway did not start: {err.read_text()[-500:]}")
            time.sleep(0.1)
        yield said[1], process
    finally:
        process.terminate()
        process.wait(60)


def sentences() -> list[str]:
    """Sentences of everyday paragraphs, 5 to 30 words each."""
    paragraphs = [t.text for t in ordinary_texts() if t.kind in ("sentence", "long")]
    parts = [
        part.strip()
        for paragraph in paragraphs
        for part in re.split(r"(?<=[.!?])\s+|\n+", paragraph)
    ]
    fitting = [part for part in parts if 5 <= len(part.split()) <= 30]
    return list(dict.fromkeys(fitting))


def paraphrases(path: Path) -> tuple[list[str], list[str]]:
    """Sentences, and what says the same as each."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    same = [row for row in rows if row.get("label") == "1"]
    return [row["sentence1"] for row in same], [row["sentence2"] for row in same]


def embed(
    address: str, model: str, texts: Sequence[str], shown: Stages
) -> tuple[Vectors, bool]:
    """Embeddings from a gateway, and whether all were in range."""
    from openai import OpenAI

    rows: list[list[float]] = []
    in_range = True
    with OpenAI(base_url=f"{address}/v1", api_key="none", timeout=1200) as client:
        for start in range(0, len(texts), AT_ONCE):
            some = list(texts[start : start + AT_ONCE])
            answer = client.embeddings.create(model=model, input=some)
            rows += [row.embedding for row in answer.data]
            verdict = (answer.model_extra or {}).get("ditto") or {}
            in_range = in_range and verdict.get("in_range") is True
            shown.count("embedding", len(rows), len(texts))
    return np.asarray(rows), in_range


def search(
    address: str, folder: Path, model: str, texts: Sequence[str],
    queries: Sequence[str], shown: Stages,
) -> Searched:  # fmt: skip
    """The nearest text of every query, by the gateway and by the float model."""
    if not texts or not queries:
        raise SetupError("There are no texts to search in, or no queries.")
    whole = [*texts, *queries]
    started = time.monotonic()
    private, in_range = embed(address, model, whole, shown)
    seconds = time.monotonic() - started
    with from_pretrained(folder, mode="float") as exact:
        plain = np.asarray([a.embedding for a in exact.predict(whole)], np.float64)
    hits = [_nearest(vectors, len(texts)) for vectors in (private, plain)]
    cosines = np.sum(_unit(private) * _unit(plain), axis=1)
    return Searched(
        len(texts), len(queries), int(np.sum(hits[0] == hits[1])),
        float(cosines.min()), in_range, seconds,
    )  # fmt: skip


def _nearest(vectors: Vectors, count: int) -> npt.NDArray[np.intp]:
    unit = _unit(vectors)
    nearest: npt.NDArray[np.intp] = (unit[count:] @ unit[:count].T).argmax(axis=1)
    return nearest


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def main(
    model_dir: Annotated[Path, typer.Argument(help="A sentence-transformers folder.")],
    texts: Annotated[int, typer.Option(help="Sentences to search in.", min=1)] = 200,
    queries: Annotated[int, typer.Option(help="Queries.", min=1)] = 50,
    pairs: Annotated[
        Path | None, typer.Option(help="Paraphrases, as in MRPC's files.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result here.")
    ] = None,
) -> None:
    """Search in private and in the clear, and compare the top hits."""
    if pairs is None:
        everyday = sentences()
        corpus, asked = everyday[:texts], everyday[texts : texts + queries]
    else:
        first, second = paraphrases(pairs)
        corpus, asked = first[:texts], second[:queries]
    with tempfile.TemporaryDirectory() as folder, stages() as shown:
        shown.stage("starting the gateway")
        arguments = "--local", f"model={model_dir}"
        with running_gateway(Path(folder), *arguments) as (address, _):
            result = search(address, model_dir, "model", corpus, asked, shown)
    document = {"version": __version__} | asdict(result) | {"share": result.share}
    if json_file is not None:
        json_file.write_text(json.dumps(document, indent=1) + "\n")
    print(  # noqa: T201
        f"{result.same_top_hit} of {result.queries} queries find the float model's top "
        f"hit among {result.texts} texts; least cosine {result.least_cosine:.6f}; "
        f"{result.seconds:.0f} s"
    )


if __name__ == "__main__":
    show.run(main)
