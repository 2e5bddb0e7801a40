"""A real language model beside its float self: perplexity, greedy tokens, their cost.

\b
    python -m benchmarks.smollm2 MODEL_DIR --data WIKITEXT

MODEL_DIR is a folder as ``examples/convert_gguf.py`` makes it of SmolLM2-135M-Instruct;
WIKITEXT has ``wiki.test.raw.txt``. The perplexity is that of windows of the raw test
text one after the other, each from its first token on, in float and in the simulator.
Prompts are the beginnings of paragraphs spread over the same text; three parties, each
a process of this machine, continue them, and the client takes the likeliest token, as
float does. Every window and every prompt is written when it is done, so the command may
be left and called again; other weights or other code start anew. ``--tiny`` does all of
it with a random Llama of two layers and a text of its own, in a minute or two.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks import show
from benchmarks.tiny_models import TEXTS, llama_folder
from ditto.api import Phase, Pretrained, from_pretrained
from ditto.api.backends import Backend, FloatBackend, PartiesBackend, SimulatedBackend
from ditto.cli.progress import Stages, stages
from ditto.errors import CapacityError, SetupError
from ditto.files import Json
from ditto.fixedpoint import Array
from ditto.owner.plan_key import code_digest

OUT = Path("docs/results/smollm2.json")
TEXT = "wiki.test.raw.txt"
_PARAGRAPH = 400
"""Characters of a paragraph that a prompt begins, at least."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    windows: int
    window: int
    """Tokens of each."""
    prompts: int
    prompt: int
    """Tokens of each."""
    tokens: int
    """Tokens that follow a prompt."""


FULL, TINY = Sizes(32, 128, 10, 32, 20), Sizes(2, 16, 2, 8, 3)


class Document:
    """The results so far, on disk."""

    def __init__(self, file: Path, about: Json) -> None:
        self._file = file
        self.rows: Json = {"about": about, "windows": [], "generations": []}
        if file.exists():
            before = json.loads(file.read_text())
            if before.get("about") == about:
                self.rows = {part: before[part] for part in self.rows}

    def add(self, part: str, row: Json) -> None:
        """One more row of a part, written at once."""
        self.rows[part].append(row)
        self.write({})

    def write(self, results: Json) -> None:
        """All rows, after what they come to."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({**results, **self.rows}, indent=1) + "\n")


def main(
    model_dir: Annotated[
        Path | None, typer.Argument(help="The model's folder.", exists=True)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help=f"A folder with {TEXT}.", exists=True)
    ] = None,
    windows: Annotated[
        int | None, typer.Option(help="Windows of text; 32 of 128 tokens.", min=0)
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(help="Prompts that parties continue; 10.", min=0)
    ] = None,
    tiny: Annotated[bool, typer.Option(help="A random model of two layers.")] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Perplexity in float and in the simulator, and greedy tokens by three parties."""
    with (
        model_and_text(model_dir, data, tiny=tiny) as (folder, text, sizes),
        stages(verbose=True) as shown,
    ):
        measured = _Measured(folder, text, sizes, json_file, shown)
        measured.perplexity(sizes.windows if windows is None else windows)
        measured.generations(sizes.prompts if prompts is None else prompts)
        results = measured.results()
    for name, value in results.items():
        typer.echo(f"{name:24} {value}")


class _Measured:
    """A model, and what is measured of it."""

    def __init__(
        self, folder: Path, text: str, sizes: Sizes, file: Path, shown: Stages
    ) -> None:
        self._folder, self._text, self._sizes, self._shown = folder, text, sizes, shown
        self._model = self._opened()
        about = {
            "model": self._model.plans.model_digest,
            "code": code_digest(),
            **vars(sizes),
        }
        self._document = Document(file, about)

    def _opened(self) -> Pretrained:
        """The model, with no plan made: the first chooses the types of weights."""
        return from_pretrained(
            self._folder, mode="float", check=False, on_stage=self._shown.stage
        )

    def perplexity(self, count: int) -> None:
        """Of windows that are not done yet: nats per token, in float and simulated."""
        size, done = self._sizes.window, len(self._document.rows["windows"])
        if done >= count:
            return
        ids = _encoded(self._model, self._text[: 12 * size * count])
        if len(ids) < size * count:
            raise SetupError(f"The text has {len(ids)} tokens, not {size * count}.")
        plain = FloatBackend(self._model.model)
        simulator = SimulatedBackend(self._model.plans, self._shown.stage)
        for k in range(done, count):
            window = np.array([ids[k * size : (k + 1) * size]], np.int32)
            self._shown.count("window", k, count)
            job = self._model.computation(Phase.FORWARD, 1, size)
            inputs = window, np.ones_like(window)
            row: Json = {"float": _nats(plain.run(job, inputs).result, window)}
            try:
                simulated = simulator.run(job, inputs).result
                row["simulated"] = _nats(simulated, window)
            except CapacityError as error:
                row["left_range"] = str(error)
            self._document.add("windows", row)

    def generations(self, count: int) -> None:
        """Of prompts that are not done yet: the tokens of the parties and of float."""
        done = len(self._document.rows["generations"])
        if done >= count:
            return
        prompts = self._prompts(count)
        plain = FloatBackend(self._model.model)
        parties = PartiesBackend(self._opened().plans, on_stage=self._shown.stage)
        try:
            for k in range(done, count):
                self._shown.count("prompt", k, count)
                before = len(parties.runs)
                exact = self._greedy(plain, prompts[k])
                given = self._greedy(parties, prompts[k])
                first, *others = parties.runs[before:]
                row = {
                    "same": sum(a == b for a, b in zip(exact, given, strict=True)),
                    "float": exact,
                    "parties": given,
                    "in_range": all(run.in_range for run in (first, *others)),
                    "prefill_bytes": first.bytes,
                    "prefill_rounds": first.rounds,
                    "prefill_seconds": round(first.seconds, 2),
                    "token_bytes": statistics.median(run.bytes for run in others),
                    "token_rounds": statistics.median(run.rounds for run in others),
                    "token_seconds": round(
                        statistics.median(run.seconds for run in others), 2
                    ),
                    "memory_bytes": max(parties.peak_memory()),
                }
                self._document.add("generations", row)
        finally:
            parties.close()

    def _prompts(self, count: int) -> list[list[int]]:
        """At least so many, and always the same first ones."""
        most = max(count, self._sizes.prompts)
        return [*beginnings(self._model, self._text, most, self._sizes.prompt)]

    def _greedy(self, backend: Backend, prompt: Sequence[int]) -> list[int]:
        """The likeliest tokens after a prompt, one after the other."""
        model, ids = self._model, np.array([prompt], np.int32)
        positions = np.array([len(prompt)], np.int32)
        job = model.computation(Phase.PREFILL, 1, len(prompt))
        outcome = backend.run(job, (ids, positions))
        tokens = [int(np.argmax(outcome.result))]
        while len(tokens) < self._sizes.tokens:
            length = model.cache_length(int(positions[0]) + 1)
            job = model.computation(Phase.DECODE, 1, length)
            last = np.array(tokens[-1:], np.int32)
            outcome = backend.run(job, (last, positions), outcome.state)
            tokens.append(int(np.argmax(outcome.result)))
            positions = positions + 1
        backend.release(outcome.state)
        return tokens

    def results(self) -> Json:
        """What all rows come to; written before them."""
        rows, sizes = self._document.rows, self._sizes
        windows = [row for row in rows["windows"] if "simulated" in row]
        results: Json = {}
        if windows:
            plain, simulated = (
                float(np.exp(np.mean([row[name] for row in windows])))
                for name in ("float", "simulated")
            )
            results |= {
                "perplexity_float": round(plain, 3),
                "perplexity_simulated": round(simulated, 3),
                "perplexity_more": round(simulated / plain - 1, 5),
                "perplexity_tokens": len(windows) * sizes.window,
                "windows_out_of_range": len(rows["windows"]) - len(windows),
            }
        generations = rows["generations"]
        if generations:
            results |= {
                "prompts": len(generations),
                "greedy_same": sum(r["same"] == sizes.tokens for r in generations),
                "tokens_same": sum(r["same"] for r in generations),
                "tokens": sizes.tokens * len(generations),
            }
            for name in ("prefill", "token"):
                for unit in ("bytes", "rounds", "seconds"):
                    found = [row[f"{name}_{unit}"] for row in generations]
                    results[f"{name}_{unit}"] = statistics.median(found)
            results["memory_bytes"] = max(r["memory_bytes"] for r in generations)
            results["gaps"] = self._gaps(generations)
        self._document.write(results)
        return results

    def _gaps(self, generations: Sequence[Json]) -> list[float]:
        """Where the parties' tokens part from float's, how far theirs lies below its
        own to the float model, in logits."""
        plain, found = FloatBackend(self._model.model), []
        prompts = self._prompts(len(generations))
        for prompt, row in zip(prompts, generations, strict=False):
            pairs = [*zip(row["float"], row["parties"], strict=True)]
            parted = [k for k, (due, given) in enumerate(pairs) if due != given]
            if parted:
                due, given = pairs[parted[0]]
                ids = np.array([[*prompt, *row["float"][: parted[0]]]], np.int32)
                job = self._model.computation(Phase.FORWARD, 1, ids.shape[1])
                logits = plain.run(job, (ids, np.ones_like(ids))).result[0, -1]
                found.append(round(float(logits[due] - logits[given]), 4))
        return found


def _encoded(model: Pretrained, text: str) -> list[int]:
    return model.tokenizer.encode(text, add_special_tokens=False).ids


def _nats(logits: Array, ids: Array) -> float:
    """Of each token after the first of a window, on average."""
    given = np.asarray(logits, np.float64)[:, :-1]
    top = given.max(-1, keepdims=True)
    total = np.log(np.exp(given - top).sum(-1)) + top[..., 0]
    chosen = np.take_along_axis(given, ids[:, 1:, None].astype(int), -1)[..., 0]
    return float((total - chosen).mean())


@contextmanager
def model_and_text(
    model_dir: Path | None, data: Path | None, *, tiny: bool
) -> Iterator[tuple[Path, str, Sizes]]:
    """A model's folder, a text for it, and how much of it is measured: those that are
    named, or for a while a random Llama of two layers."""
    if model_dir is not None and data is not None:
        yield model_dir, (data / TEXT).read_text(), FULL
        return
    if not tiny:
        raise SetupError("Name a MODEL_DIR and --data, or take --tiny.")
    with TemporaryDirectory() as folder:
        yield llama_folder(Path(folder)), " ".join([*TEXTS] * 8), TINY


def beginnings(
    model: Pretrained, text: str, count: int, size: int
) -> Iterator[list[int]]:
    """The beginnings of paragraphs, spread over the text."""
    lines = [line.strip() for line in text.splitlines()]
    long = [line for line in lines if len(line) >= _PARAGRAPH] or [text]
    for k in range(count):
        line = long[k * len(long) // count]
        yield _encoded(model, line[12 * k if len(long) < count else 0 :])[:size]


if __name__ == "__main__":
    show.run(main, __doc__)
