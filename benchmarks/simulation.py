"""How fast the simulated student is: beside the float model, and on whole data sets."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import typer

from benchmarks import show
from ditto.compiler import find_profile
from ditto.models import Model, random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Plan
from ditto.simulation import Simulator
from ditto.training.batches import TrainingBatch
from ditto.training.distillation import logits_alone
from ditto.training.loop import Step, training_step
from ditto.training.quantized import quantized
from ditto.training.supervised import Logits, cross_entropy, logits_of

RESULTS = Path("docs/results/simulation.json")
MINILM = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
"""The size of MiniLM."""
EXACT = 16
"""Texts that the exact simulator runs at once, as ``ditto eval`` does."""


def main(
    profile: Annotated[str, typer.Option(help="ditto, paper, puma or spu.")] = "ditto",
    texts: Annotated[int, typer.Option(help="Texts of a batch.", min=1)] = 32,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=2)] = 32,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 7,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="A model of a few weights: a trial.")
    ] = False,
    json_file: show.JsonFile = RESULTS,
) -> None:
    """A forward pass and a training step of the simulated student beside those of the
    float model, in one process on one batch, and the exact simulator's seconds.

    Random weights of MiniLM's size. Both take turns; a ratio is the median of those of
    neighbours. About four minutes on two cores.
    """
    if tiny:
        texts, tokens, repeat = 4, 8, 2
        model = random_model("bert-tiny", vocab_size=64, num_hidden_layers=1)
    else:
        model = random_model("bert-base", **MINILM)
    vocabulary = model.config.vocab_size
    plans = Plans(model, find_profile(profile), RandomSamples(vocabulary))
    plan = plans.plan(Computation(Phase.FORWARD, 1, tokens))
    model = plans.model
    batch = _batch(texts, tokens, vocabulary)
    forward = _forward(model, plan, batch, repeat)
    training = _training(model, plan, batch, repeat)
    exact = _exact(model, plan, batch, repeat)
    result = {
        "profile": profile,
        "model": "tiny" if tiny else "MiniLM's size",
        "texts": texts,
        "tokens": tokens,
        "forward": forward,
        "training_step": training,
        "exact": exact,
    }
    rows = [
        [name, *(f"{found[key]:.3f}" for key in ("float", "simulated", "ratio"))]
        for name, found in (("forward pass", forward), ("training step", training))
    ]
    title = f"{texts} texts of {tokens} tokens, {profile}: seconds"
    show.show(title, ["what"], ["float", "simulated", "ratio"], rows, None)
    typer.echo(
        f"The exact simulator: {exact['seconds_alone']:.3f} s for a text alone, "
        f"{exact['seconds_together']:.3f} s for one of {exact['together']} at once"
    )
    show.write(json_file, [result])


def _batch(texts: int, tokens: int, vocabulary: int) -> TrainingBatch:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, vocabulary, (texts, tokens)).astype(np.int32)
    lengths = rng.integers(tokens // 2, tokens + 1, texts)
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.int32)
    labels = rng.integers(0, 2, texts).astype(np.int32)
    weights = np.ones(texts, np.float32)
    return TrainingBatch(ids, mask, np.zeros_like(ids), labels, weights)


def _functions(model: Model, plan: Plan, batch: TrainingBatch) -> list[Logits]:
    """The float model and the student, as training calls them."""
    plans = {batch.ids.shape[1]: plan}
    return [logits_of(model), logits_alone(quantized(plans, pairs=False))]


def _forward(
    model: Model, plan: Plan, batch: TrainingBatch, repeat: int
) -> dict[str, Any]:
    params = jax.tree.map(jnp.asarray, model.params)
    functions = _functions(model, plan, batch)
    found = _in_turns([partial(jax.jit(f), params, batch) for f in functions], repeat)
    fast = np.asarray(jax.jit(functions[1])(params, batch), np.float64)
    with jax.enable_x64(True):
        exact = np.asarray(jax.jit(functions[1])(params, batch), np.float64)
    return found | {"largest_difference_to_exact": float(np.abs(fast - exact).max())}


def _training(
    model: Model, plan: Plan, batch: TrainingBatch, repeat: int
) -> dict[str, Any]:
    """Steps of AdamW on the mean cross entropy."""
    optimizer = optax.adamw(1e-5)
    return _in_turns(
        [
            _stepping(
                model, training_step(cross_entropy(f), optimizer), optimizer, batch
            )
            for f in _functions(model, plan, batch)
        ],
        repeat,
    )


def _stepping(
    model: Model,
    step: Step,
    optimizer: optax.GradientTransformation,
    batch: TrainingBatch,
) -> Callable[[], jax.Array]:
    """Each call goes a step further, and gives the loss before it."""
    params = jax.tree.map(jnp.array, model.params)
    arrays = (params, optimizer.init(params))

    def call() -> jax.Array:
        nonlocal arrays
        arrays, loss = step(arrays, batch, None)
        return loss

    return call


def _exact(
    model: Model, plan: Plan, batch: TrainingBatch, repeat: int
) -> dict[str, Any]:
    simulator = Simulator(plan)
    together = min(EXACT, len(batch.ids))
    arguments = [
        (model.params, batch.ids[k : k + 1], batch.mask[k : k + 1])
        for k in range(together)
    ]
    found = _in_turns(
        [lambda: simulator(arguments[0]), lambda: simulator.many(arguments)], repeat
    )
    return {
        "together": together,
        "seconds_alone": found["float"],
        "seconds_together": round(found["simulated"] / together, 4),
    }


def _in_turns(calls: Sequence[Callable[[], Any]], repeat: int) -> dict[str, Any]:
    """Seconds of two calls that take turns, and the ratio of the second to the first;
    the first run of each is not timed."""
    seconds: list[list[float]] = [[], []]
    for _ in range(1 + repeat):
        for k, call in enumerate(calls):
            started = time.perf_counter()
            jax.tree.map(np.asarray, call())  # waits for it
            seconds[k].append(time.perf_counter() - started)
    first, second = (some[1:] for some in seconds)
    ratios = [b / a for a, b in zip(first, second, strict=True)]
    return {
        "float": round(statistics.median(first), 4),
        "simulated": round(statistics.median(second), 4),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


if __name__ == "__main__":
    show.run(main)
