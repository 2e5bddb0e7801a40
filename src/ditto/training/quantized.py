"""A student as the three parties compute it: plans with straight-through rounding.

Plans are made for the lengths that texts are padded to, one for each, from the
student's weights as they are. Training then changes the weights, and not the types: a
plan's margins have room for that, and the finished student gets plans of its own.
"""

from collections.abc import Callable, Iterable, Mapping

import jax
import jax.numpy as jnp

from ditto.models import Model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import OnStage, Plans
from ditto.plan import Plan, Tree
from ditto.simulation import as_function
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.distillation import Outputs, Traced


def computation(length: int, *, pairs: bool) -> Computation:
    """One text, or pair of texts, of so many tokens."""
    return Computation(Phase.FORWARD, 1, length, with_types=pairs)


def lengths(batches: Iterable[Batches]) -> list[int]:
    """Those that texts are padded to, ascending."""
    found = {batch.ids.shape[1] for data in batches for batch in data.in_order()}
    return sorted(found)


def has_pairs(model: Model, batches: Iterable[Batches]) -> bool:
    """Whether the model is told which text of a pair a token is of."""
    if model.config.type_vocab_size < 2:
        return False
    return any(batch.types.any() for data in batches for batch in data.in_order())


def make_plans(
    plans: Plans, lengths: Iterable[int], *, pairs: bool, on_stage: OnStage
) -> dict[int, Plan]:
    """By length; the longest first, as it chooses the types of the weights."""
    made = {}
    for length in sorted(lengths, reverse=True):
        on_stage(f"calibrating and compiling for {length} tokens")
        made[length] = plans.plan(computation(length, pairs=pairs), on_stage)
    return made


def quantized(
    plans: Mapping[int, Plan],
    *,
    pairs: bool,
    prepare: Callable[[Tree], Tree] = lambda params: params,
) -> Traced:
    """The student by its plans; it shows no hidden states. ``prepare`` makes of its
    parameters those that the plans take."""
    functions = {length: as_function(plan) for length, plan in plans.items()}

    def outputs(params: Tree, batch: TrainingBatch) -> Outputs:
        function, prepared = functions[batch.ids.shape[1]], prepare(params)

        def one(*inputs: jax.Array) -> jax.Array:
            rows = (row[None] for row in inputs)
            return jnp.asarray(function((prepared, *rows))[0], jnp.float32)

        given = (batch.ids, batch.mask, *((batch.types,) if pairs else ()))
        return jax.vmap(one)(*(jnp.asarray(each) for each in given)), ()

    return outputs
