"""A student's first weights: parabolas that are fitted to its teacher's activation.

With its teacher's weights a student that computes ``quad`` in place of GeLU begins as
noise. Two things are found by least squares, from what goes into the teacher's
activations on training texts, and are written into the maps around the activation, so
they cost nothing when the student is run:

1. for each neuron the parabola a h^2 + b h + c that is nearest to the activation, over
   what goes into it. It is ``quad`` of h moved, times a factor, plus a constant: the
   first is in the bias of the map before, the others are in the map after;
2. for each layer the map after, as near as a linear map of all its parabolas comes to
   what the teacher's map makes of the activations: each parabola makes up for errors of
   the others.

All layers are fitted to the teacher's states, not to the student's own: so two passes
over the texts are enough. What errors of the layers before add is left to training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ditto.errors import SetupError
from ditto.models import Model
from ditto.models.layers import ACTIVATIONS, QUAD, Elementwise, Params
from ditto.training.batches import TrainingBatch
from ditto.training.unfused import with_activations

Doubles = npt.NDArray[np.float64]

LEAST_CURVATURE = 1 / 32
"""The least factor of h^2. A neuron whose values are all positive would have none, and
the square's vertex far away: large numbers that cancel."""
RIDGE = 0.1
"""What is added to the variance of every parabola, of 1, before the second step: it
keeps that from learning the texts by heart."""


@dataclass(frozen=True)
class Parabolas:
    """Of each neuron of a layer: a h^2 + b h + c."""

    a: Doubles
    b: Doubles
    c: Doubles

    @property
    def factor(self) -> Doubles:
        """What ``quad`` is multiplied by."""
        return self.a / QUAD[2]

    @property
    def shift(self) -> Doubles:
        """What is added to h before."""
        return (self.b / self.factor - QUAD[1]) / (2 * QUAD[2])

    @property
    def constant(self) -> Doubles:
        """What is added afterwards."""
        moved = QUAD[2] * self.shift**2 + QUAD[1] * self.shift + QUAD[0]
        return self.c - self.factor * moved


def fit_activation(
    teacher: Model,
    student: Model,
    batches: Sequence[TrainingBatch],
    on_count: Callable[[int, int], None] = lambda *_: None,
) -> Model:
    """The student with the teacher's weights, fitted on these batches.

    ``on_count`` is called with how many passes over a batch are done, and of how many.
    """
    maps = teacher.family.maps_around_activation
    if maps is None:
        raise SetupError(
            f"An activation of {teacher.family.model_type} stands between other maps "
            "than one before and one after: it cannot be fitted. Begin with the "
            "teacher's weights: fit_samples=0."
        )
    before, after = maps
    inputs = _activation_inputs(teacher)
    params, count = teacher.params, 2 * len(batches)
    layers = [dict(layer) for layer in params["layers"]]

    sums: Any = None
    moments = jax.jit(lambda p, batch: [_moments(*each) for each in inputs(p, batch)])
    for k, batch in enumerate(batches):
        found = jax.tree.map(_double, moments(params, batch))
        sums = jax.tree.map(np.add, sums, found) if k else found
        on_count(k + 1, count)
    fits = [_parabolas(each) for each in sums]

    @jax.jit
    def correlations(p: Params, batch: TrainingBatch, fits: Any) -> Any:
        parts = zip(inputs(p, batch), fits, strict=True)
        return [_correlations(*each, *fit) for each, fit in parts]

    told = [(fit.shift, fit.factor, fit.constant) for fit in fits]
    for k, batch in enumerate(batches):
        found = correlations(params, batch, told)
        sums = jax.tree.map(jnp.add, sums, found) if k else found
        on_count(len(batches) + k + 1, count)
    for layer, fit, each in zip(layers, fits, sums, strict=True):
        layer[before] = _moved(layer[before], fit)
        layer[after] = _mended(layer[after], fit, each)
    return replace(student, params={**params, "layers": layers})


Inputs = Callable[[Params, TrainingBatch], list[tuple[jax.Array, jax.Array, jax.Array]]]
"""Of each layer what goes into its activation, what comes out (B, S, I), and which
tokens count (B, S, 1)."""


def _activation_inputs(model: Model) -> Inputs:
    tells_texts_apart = model.config.type_vocab_size > 1

    def inputs(
        params: Params, batch: TrainingBatch
    ) -> list[tuple[jax.Array, jax.Array, jax.Array]]:
        seen: list[tuple[jax.Array, jax.Array, jax.Array]] = []
        weights = batch.weights if batch.weights.ndim > 1 else batch.weights[:, None]
        counted = jnp.asarray(batch.mask * weights)[:, :, None]

        def noting(activation: Elementwise) -> Elementwise:
            def noted(x: jax.Array) -> jax.Array:
                result = activation(x)
                seen.append((x, result, counted))
                return result

            return noted

        def states(params: Params, *given: jax.Array) -> list[jax.Array]:
            return model.family.hidden_states(model.config, params, *given)

        types = (batch.types,) if tells_texts_apart else ()
        with_activations(states, noting)(params, batch.ids, batch.mask, *types)
        return seen

    return inputs


def _double(array: jax.Array) -> Doubles:
    return np.asarray(array, np.float64)


def _moments(h: jax.Array, target: jax.Array, counted: jax.Array) -> list[jax.Array]:
    """Sums over all tokens of h^0 to h^4, and of the activation times h^0 to h^2."""
    powers = [counted * h**n for n in range(5)]
    crossed = [target * power for power in powers[:3]]
    return [each.sum((0, 1)) for each in (*powers, *crossed)]


def _parabolas(sums: Sequence[Doubles]) -> Parabolas:
    """The nearest ones, of a curvature that is not too small."""
    moments = np.stack(sums[:5])
    crossed = np.stack(sums[5:], -1)
    count = moments[0].max()
    normal = np.stack([moments[k : k + 3] for k in range(3)]).transpose(2, 0, 1)
    scale = np.sqrt(moments[[0, 2, 4]].T / count) + 1e-6  # of 1, h and h^2
    scaled = normal / (count * scale[:, :, None] * scale[:, None, :])
    scaled += 1e-6 * np.eye(3)  # of neurons that hardly change
    found = np.linalg.solve(scaled, (crossed / (count * scale))[..., None])[..., 0]
    a = np.maximum((found / scale)[:, 2], LEAST_CURVATURE)
    # b and c again, for those whose a has changed
    rest = (crossed - a[:, None] * normal[:, 2]) / count
    mean = normal[:, 0, 1] / count
    variance = normal[:, 1, 1] / count - mean**2
    b = (rest[:, 1] - mean * rest[:, 0]) / (variance + 1e-6)
    return Parabolas(a, b, rest[:, 0] - b * mean)


def _correlations(
    h: jax.Array,
    target: jax.Array,
    counted: jax.Array,
    shift: jax.Array,
    factor: jax.Array,
    constant: jax.Array,
) -> list[jax.Array]:
    """Sums over all tokens: how many there are, what the student has (quad), what is
    missing to the activation, and the products of both."""
    shift, factor, constant = (
        jnp.asarray(x, h.dtype) for x in (shift, factor, constant)
    )
    have = ACTIVATIONS["quad"](h + shift) * factor + constant
    missing = (target - have) * counted
    have = have * counted
    squares, crossed = (
        jnp.einsum("bsi,bsj->ij", have, other) for other in (have, missing)
    )
    return [counted.sum(), have.sum((0, 1)), missing.sum((0, 1)), squares, crossed]


def _moved(p: Params, fit: Parabolas) -> Params:
    """The map before the activation."""
    return {**p, "b": (np.asarray(p["b"]) + fit.shift).astype(np.float32)}


def _mended(p: Params, fit: Parabolas, sums: Sequence[jax.Array]) -> Params:
    """The map after: of what ``quad`` gives, in place of the activation."""
    count, have, missing, squares, crossed = map(_double, sums)
    have, missing = have / count, missing / count
    variances = squares / count - np.outer(have, have)
    deviation = np.sqrt(np.diag(variances)) + 1e-6
    scaled = variances / np.outer(deviation, deviation) + RIDGE * np.eye(len(have))
    target = (crossed / count - np.outer(have, missing)) / deviation[:, None]
    w, b = (_double(p[name]) for name in ("w", "b"))
    more = np.linalg.solve(scaled, target @ w) / deviation[:, None]
    parabolas = w + more
    return {
        "w": (fit.factor[:, None] * parabolas).astype(np.float32),
        "b": (b + fit.constant @ parabolas + missing @ w - have @ more).astype(
            np.float32
        ),
    }
