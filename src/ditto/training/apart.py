"""Activations computed once, apart from what they go into.

XLA fuses an activation into every product and every sum it goes into, and computes it
there again, element by element in the order of the product: two thirds of the time of a
training step. What is behind a condition is never fused.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Var, jaxpr_as_fun

from ditto.models.layers import ACTIVATIONS, Elementwise


def with_activations_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays, faster to train."""

    def run(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        leaves = jax.tree.leaves(arguments)
        results = _evaluate(closed.jaxpr, [*closed.consts, *leaves])
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def _evaluate(jaxpr: Jaxpr, given: list[Any]) -> list[Any]:
    values: dict[Var, Any] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True)
    )

    def read(atom: Literal | Var) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        primitive: Any = equation.primitive
        params = equation.params
        inputs = [read(atom) for atom in equation.invars]
        if params.get("name") in ACTIVATIONS:
            outputs = [_apart(jaxpr_as_fun(params["jaxpr"]))(*inputs)]
        else:
            functions, bound = primitive.get_bind_params(params)
            outputs = primitive.bind(*functions, *inputs, **bound)
            outputs = outputs if primitive.multiple_results else [outputs]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apart(flat: Callable[[jax.Array], list[jax.Array]]) -> Elementwise:
    """An activation that is not fused, forward or backward."""

    def activation(x: jax.Array) -> jax.Array:
        return flat(x)[0]

    def backward(x: jax.Array, cotangent: jax.Array) -> jax.Array:
        (result,) = jax.vjp(activation, x)[1](cotangent)
        return jnp.asarray(result)

    @jax.custom_vjp
    def apart(x: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.cond(_always(x), activation, jnp.zeros_like, x))

    def forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return apart(x), x

    def back(x: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
        nothing = jnp.zeros_like
        return (
            jnp.asarray(
                jax.lax.cond(
                    _always(x), backward, lambda x, _: nothing(x), x, cotangent
                )
            ),
        )

    apart.defvjp(forward, back)
    return apart


def _always(x: jax.Array) -> jax.Array:
    """True, which the compiler cannot know."""
    return ~(x.ravel()[0] > jnp.inf)
