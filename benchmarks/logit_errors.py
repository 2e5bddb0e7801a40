"""What the error of a language model's logits is made of.

\b
    python -m benchmarks.logit_errors MODEL_DIR --data WIKITEXT --fit-errors 0.002,0.001

The plan of a prompt is simulated four times: as the parties round, at random, with
nothing rounded, and with only the weights or only the recasts rounded. With nothing
rounded what is left are the functions: parabolas for a SiLU, an exp that is
nothing far below zero. What weights and recasts add is measured from there. Errors are
the root of the mean square over all words, less their mean, which changes no token. A
plan is made for each of the profile's ``fit_error`` that are named, of which a language
model keeps a quarter, and what it sends is written too. ``--tiny`` does it with a
random Llama of two layers.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer

from benchmarks import show
from benchmarks.smollm2 import TEXT, beginnings, model_and_text
from ditto.analysis import estimate
from ditto.api import Phase, Pretrained, from_pretrained
from ditto.api.backends import FloatBackend
from ditto.cli.progress import Stages, stages
from ditto.client.tokens import Encoded, pad_batch
from ditto.compiler import find_profile
from ditto.fixedpoint import Array
from ditto.plan import Plan
from ditto.simulation.machine import Machine, encode_inputs
from ditto.simulation.rounding import AsProtocol, Nearest
from ditto.steps import Numbers

OUT = Path("docs/results/logit_errors.json")
PROMPTS = 6
PARTS = ("all", "functions", "weights", "recasts")
PROFILE = find_profile("ditto")


class Exact(Nearest):
    """Rounds nothing."""

    def nearest(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return x


class Switched(AsProtocol):
    """As the parties round if it is ``on``, and else nothing but the cells of a plan's
    functions, which choose a line; what leaves its range goes on."""

    loses = False

    def __init__(self, plan: Plan, on: Numbers) -> None:
        super().__init__(jnp.uint32(1))
        self._steps, self._on = len(plan.steps), on

    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:
        """See Rounding; a cell has a draw of its own (``steps.grid.own_draw``)."""
        rounded = super().cut(x, bits, index)
        is_cell = self._steps <= index < 2 * self._steps
        return rounded if is_cell else self._either(rounded, x * 2.0**-bits)

    def nearest(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return self._either(super().nearest(x), x)

    def down(self, x: Numbers) -> Numbers:
        """See Rounding."""
        return self._either(super().down(x), x)

    def _either(self, rounded: Numbers, exact: Numbers) -> Numbers:
        return jnp.where(self._on, rounded, exact)


def main(
    model_dir: Annotated[
        Path | None, typer.Argument(help="The model's folder.", exists=True)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help=f"A folder with {TEXT}.", exists=True)
    ] = None,
    fit_errors: Annotated[
        str, typer.Option(help="Of a SiLU's parabolas, separated by commas.")
    ] = f"{PROFILE.fit_error}",
    tiny: Annotated[bool, typer.Option(help="A random model of two layers.")] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Errors of logits by weights, by recasts and by functions."""
    rows = []
    with (
        model_and_text(model_dir, data, tiny=tiny) as (folder, text, sizes),
        stages(verbose=True) as shown,
    ):
        for name in show.names(fit_errors):
            profile = PROFILE.replace(fit_error=float(name))
            model = from_pretrained(folder, mode="float", check=False, profile=profile)
            sent, errors = _errors(model, text, sizes.prompt, shown)
            about = {"fit_error": profile.fit_error, "prompts": PROMPTS}
            about["tokens"] = sizes.prompt
            rows.append({**about, "bytes": sent, **errors})
            show.write(json_file, rows)
    cells = [
        [f"{row['fit_error']:g}", f"{row['bytes'] / 1e6:.1f}",
         *(f"{row[part]:.4f}" for part in PARTS)]
        for row in rows
    ]  # fmt: skip
    show.show("Errors of logits", [], ["fit error", "MB", *PARTS], cells, None)


def _errors(
    model: Pretrained, text: str, length: int, shown: Stages
) -> tuple[float, dict[str, float]]:
    """What the plan sends, and its errors."""
    computation = model.computation(Phase.PREFILL, 1, length)
    prompts = beginnings(model, text, PROMPTS, length)
    encoded = [Encoded(ids, [0] * len(ids)) for ids in prompts]
    batch = pad_batch(encoded, length, model.tokenizer.pad_id)
    given = (batch.ids, batch.lengths)
    exact = np.asarray(FloatBackend(model.model).run(computation, given).result)
    plan = model.plans.plan(computation, shown.stage)

    logits = _simulator(plan, model, given)
    shown.stage("simulating with nothing rounded")
    unrounded = logits(Exact(), False)
    errors = (
        logits(Nearest(), True) - exact,
        unrounded - exact,
        logits(Nearest(), False) - unrounded,
        logits(Exact(), True) - unrounded,
    )
    return estimate(plan).bytes, dict(zip(PARTS, map(_size, errors), strict=True))


def _simulator(
    plan: Plan, model: Pretrained, given: Sequence[Array]
) -> Callable[[Nearest, bool], Array]:
    """Logits of each prompt, of a plan for one: by how weights are rounded, and whether
    anything else is. It is compiled once."""
    weights = jax.tree_util.tree_leaves(model.plans.model.params)

    @jax.jit
    def run(encoded: dict[int, Numbers], on: Numbers, *asked: Numbers) -> Numbers:
        rounding = Switched(plan, on)
        leaves = [*[None] * len(weights), *asked]
        machine = Machine(plan, rounding)
        values = machine.run(encoded | encode_inputs(plan, leaves, rounding))
        return machine.opened(values, plan.outputs[0])

    def logits(of_weights: Nearest, on: bool) -> Array:
        with jax.enable_x64(True):
            leaves = [*weights, *[None] * len(given)]
            encoded = encode_inputs(plan, leaves, of_weights)
            rows = [
                np.asarray(
                    run(encoded, jnp.asarray(on), *(x[k : k + 1] for x in given))
                )
                for k in range(len(given[0]))
            ]
        return np.concatenate(rows)

    return logits


def _size(errors: Array) -> float:
    centred = errors - errors.mean(axis=-1, keepdims=True)
    return float(np.sqrt((centred**2).mean()))


if __name__ == "__main__":
    show.run(main, __doc__)
