"""Plans as they are predicted and simulated, to show that a change leaves them alone.

\b
    python -m benchmarks.plans --json FILE             compile, predict, simulate
    python -m benchmarks.plans compare BEFORE AFTER    both side by side, as Markdown

The plans are those of one BERT-base encoder layer (128 tokens, width 768) and of small
random BERT and GPT-2 models, in all four profiles. For each, FILE holds the predicted
bytes and rounds of every step, the SHA-256 of the simulated answer to a seeded input
with seeded rounding, and how far the answer is from the float model's. ``compare`` ends
with 1 if anything differs; kinds of steps may have other names. A few minutes.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer

from benchmarks.layer import (
    LayerShape,
    encoder_layer,
    exact_gelu,
    quad,
    tokens,
    weights,
    with_gelu,
)
from ditto.analysis import predict
from ditto.client.tokens import pad_batch
from ditto.compiler import PROFILES, Profile
from ditto.compiler import compile as compile_plan
from ditto.models import Head, Model, random_model
from ditto.models.computation import Computation, Phase, function_of
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Plan
from ditto.simulation import Simulator

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SEED = 7
"""Of the rounding in the simulator."""
VOCABULARY, LENGTH, CACHE = 256, 16, 24
SHOWN = 8
"""Numbers of an answer that are written in full."""


@dataclass(frozen=True)
class Case:
    """A plan, arguments for it, and what the float function answers."""

    name: str
    profile: Profile
    plan: Plan
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class StepRow:
    """What a step is predicted to cost."""

    kind: str
    scope: str
    bytes: float
    rounds: float


@dataclass(frozen=True)
class PlanRow:
    """All that is compared of a plan."""

    name: str
    profile: str
    gelu: str
    bytes: float
    rounds: float
    answer_sha256: str
    answer: list[float]
    """Its first numbers."""
    max_error: float
    """Against the float function."""
    steps: list[StepRow]

    @property
    def key(self) -> tuple[str, str, str]:
        """By what two files name the same plan."""
        return self.name, self.profile, self.gelu


def layer_cases() -> Iterator[Case]:
    """One encoder layer of BERT-base, with the GeLUs that a profile can have."""
    shape = LayerShape()
    params = weights(shape, 0)
    samples = [(params, tokens(shape, seed)) for seed in (2, 3)]
    arguments = params, tokens(shape, 1)
    profiles = [with_gelu(p, gelu) for p in PROFILES for gelu in ("accurate", "quad")]
    for profile in dict.fromkeys(p.model_dump_json() for p in profiles):
        chosen = next(p for p in profiles if p.model_dump_json() == profile)
        plan = compile_plan(
            encoder_layer(shape, exact_gelu),
            arguments,
            profile=chosen,
            calibration=samples,
            weight_argnums=(0,),
        )
        reference = quad if chosen.gelu == "quad" else exact_gelu
        expected = encoder_layer(shape, reference)(*arguments)
        yield Case("encoder layer", chosen, plan, arguments, expected)


def _small(preset: str, seed: int) -> Model:
    return random_model(
        preset,
        seed=seed,
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
    )


def model_cases() -> Iterator[Case]:
    """Two layers of every kind of model and job, in every profile."""
    bert = _small("bert-tiny", seed=1)
    gpt2 = _small("gpt2-tiny", seed=2)
    for profile in PROFILES.values():
        for model in (bert, gpt2):
            plain = model
            if profile.gelu == "quad":
                plain = model.with_config(hidden_act="quad")
            plans = Plans(model, profile, RandomSamples(VOCABULARY), rows=4)
            for name, job, inputs in _jobs(plain, further=profile.name == "ditto"):
                arguments = model.params, *inputs
                expected = function_of(plain, job)(plain.params, *inputs)
                yield Case(name, profile, plans.plan(job), arguments, expected)


def _jobs(
    model: Model, *, further: bool
) -> Iterator[tuple[str, Computation, tuple[Any, ...]]]:
    """What a model is asked, with the ways to ask it that cost more if ``further``."""
    source = RandomSamples(VOCABULARY)
    rows = [source.row(1000 + k, LENGTH, pairs=True) for k in range(2)]
    batch = pad_batch(rows, LENGTH, source.pad_id)
    if model.head is not Head.TEXT_GENERATION:
        yield "BERT", Computation(Phase.FORWARD, 2, LENGTH), (batch.ids, batch.mask)
        if further:
            hidden = Computation(
                Phase.FORWARD, 2, LENGTH, with_types=True, hide_length=True
            )
            mask = batch.mask.astype(np.float32)
            yield "BERT, pairs, hidden length", hidden, (batch.ids, mask, batch.types)
        return
    inputs = batch.ids, batch.lengths
    yield "GPT-2 prefill", Computation(Phase.PREFILL, 2, LENGTH), inputs
    if further:
        inside = Computation(Phase.PREFILL, 2, LENGTH, reveal="token")
        yield "GPT-2 prefill, token chosen", inside, inputs
    wider = pad_batch(rows, CACHE, source.pad_id)
    begin = function_of(model, Computation(Phase.PREFILL, 2, CACHE))
    logits, cache = begin(model.params, wider.ids, wider.lengths)
    token = np.argmax(np.asarray(logits), -1).astype(np.int32)
    kept = jax.tree.map(np.asarray, cache)
    yield (
        "GPT-2 decode",
        Computation(Phase.DECODE, 2, CACHE),
        (token, wider.lengths, kept),
    )


def row_of(case: Case) -> PlanRow:
    """Predict and simulate a plan."""
    steps = [
        StepRow(step.kind.name, step.scope, cost.bytes, cost.rounds)
        for step, cost in zip(case.plan.steps, predict(case.plan), strict=True)
    ]
    answer = _leaves(Simulator(case.plan)(case.arguments, seed=SEED).check().result)
    expected = _leaves(case.expected)
    digest = hashlib.sha256()
    for leaf in answer:
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    errors = [np.abs(a - b).max() for a, b in zip(answer, expected, strict=True)]
    return PlanRow(
        name=case.name,
        profile=case.profile.name,
        gelu=case.profile.gelu,
        bytes=sum(step.bytes for step in steps),
        rounds=sum(step.rounds for step in steps),
        answer_sha256=digest.hexdigest(),
        answer=[float(x) for x in answer[0].ravel()[:SHOWN]],
        max_error=float(max(errors)),
        steps=steps,
    )


def _leaves(result: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


def read(path: Path) -> dict[tuple[str, str, str], PlanRow]:
    """The rows of a file, by key."""
    rows = [
        PlanRow(**{**row, "steps": [StepRow(**step) for step in row["steps"]]})
        for row in json.loads(path.read_text("utf-8"))["plans"]
    ]
    return {row.key: row for row in rows}


def difference(before: PlanRow, after: PlanRow) -> str:
    """The first thing that differs between two rows of the same plan, or nothing."""
    if len(before.steps) != len(after.steps):
        return f"{len(before.steps)} steps became {len(after.steps)}"
    for i, (a, b) in enumerate(zip(before.steps, after.steps, strict=True)):
        if (a.bytes, a.rounds) != (b.bytes, b.rounds):
            return (
                f"step {i} ({a.kind}, now {b.kind}, in {b.scope or 'no scope'}): "
                f"{a.bytes:,.1f} bytes and {a.rounds:g} rounds became "
                f"{b.bytes:,.1f} and {b.rounds:g}"
            )
    if before.answer_sha256 != after.answer_sha256:
        pairs = zip(before.answer, after.answer, strict=True)
        most = max(abs(a - b) for a, b in pairs)
        return f"another answer: its first numbers differ by up to {most:.3g}"
    return ""


def renamed(before: PlanRow, after: PlanRow) -> set[tuple[str, str]]:
    """Kinds of steps that have another name now."""
    pairs = zip(before.steps, after.steps, strict=False)
    return {(a.kind, b.kind) for a, b in pairs if a.kind != b.kind}


@app.callback(invoke_without_command=True, help=__doc__)
def write(
    context: typer.Context,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all rows here.")
    ] = None,
) -> None:
    """Compile, predict and simulate every plan."""
    if context.invoked_subcommand is not None:
        return
    if json_file is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    rows = []
    for case in chain(layer_cases(), model_cases()):
        row = row_of(case)
        rows.append(row)
        typer.echo(
            f"{row.name}, {row.profile}, gelu {row.gelu}: {len(row.steps)} steps, "
            f"{row.bytes / 1e6:.3f} MB, {row.rounds:g} rounds, "
            f"error {row.max_error:.4f}"
        )
    whole = {"plans": [asdict(row) for row in rows]}
    json_file.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="What --json wrote before a change.")],
    after: Annotated[Path, typer.Argument(help="What --json wrote after it.")],
) -> None:
    """Bytes, rounds and answers of two files; ends with 1 if any differ."""
    old, new = read(before), read(after)
    cells: list[Sequence[str]] = [
        ("plan", "profile", "gelu", "steps", "bytes before", "bytes after",
         "rounds before", "rounds after", "every step same", "answer same"),
        ("---",) * 3 + ("---:",) * 5 + ("---",) * 2,
    ]  # fmt: skip
    problems, names = [], set()
    for key in dict.fromkeys([*old, *new]):
        title = ", ".join(key)
        if key not in old or key not in new:
            problems.append(f"{title}: only in {before if key in old else after}")
            continue
        a, b = old[key], new[key]
        names |= renamed(a, b)
        costs = [[(s.bytes, s.rounds) for s in row.steps] for row in (a, b)]
        same = costs[0] == costs[1], a.answer_sha256 == b.answer_sha256
        numbers = (a.bytes, b.bytes, a.rounds, b.rounds)
        cells.append(
            (*key, f"{len(b.steps)}", *(f"{number:,.0f}" for number in numbers),
             *("yes" if part else "NO" for part in same))
        )  # fmt: skip
        if why := difference(a, b):
            problems.append(f"{title}: {why}")
    for line in cells:
        typer.echo(f"| {' | '.join(line)} |")
    for old_name, new_name in sorted(names):
        typer.echo(f"renamed: {old_name} to {new_name}", err=True)
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
