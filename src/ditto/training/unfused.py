"""Activations that are computed once, not fused into what they go into.

XLA fuses an activation into every product and every sum it goes into, and computes it
there again, element by element in the order of the product. A training step takes less
processor without that. XLA fuses nothing across a condition; on a processor, it does
across an optimization barrier.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Var, jaxpr_as_fun

from ditto.models.layers import ACTIVATIONS, Elementwise

Replace = Callable[[Elementwise], Elementwise]


def with_unfused_activations(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays, with each activation computed once.

    Only those at the top level of the function are found, and not under ``vmap``.
    """
    return with_activations(function, _unfused)


def with_activations(
    function: Callable[..., Any], replace: Replace
) -> Callable[..., Any]:
    """A function of arrays with something else for each of its activations, in the
    order in which they are computed. Those are found that stand at its top level."""

    def run(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        leaves = jax.tree.leaves(arguments)
        results = _evaluate(closed.jaxpr, [*closed.consts, *leaves], replace)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def _evaluate(jaxpr: Jaxpr, arguments: list[Any], replace: Replace) -> list[Any]:
    values: dict[Var, Any] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True)
    )

    def read(atom: Literal | Var) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        primitive: Any = equation.primitive
        params = equation.params
        inputs = [read(atom) for atom in equation.invars]
        if params.get("name") in ACTIVATIONS:
            outputs = [replace(_elementwise(jaxpr_as_fun(params["jaxpr"])))(*inputs)]
        else:
            functions, bound = primitive.get_bind_params(params)
            outputs = primitive.bind(*functions, *inputs, **bound)
            outputs = outputs if primitive.multiple_results else [outputs]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _elementwise(flat: Callable[[jax.Array], list[jax.Array]]) -> Elementwise:
    def activation(x: jax.Array) -> jax.Array:
        return flat(x)[0]

    return activation


def _unfused(activation: Elementwise) -> Elementwise:
    """An activation that is fused neither forward nor backward."""

    def gradient(x: jax.Array, cotangent: jax.Array) -> jax.Array:
        (result,) = jax.vjp(activation, x)[1](cotangent)
        return jnp.asarray(result)

    def zeros(x: jax.Array, *_: jax.Array) -> jax.Array:
        return jnp.zeros_like(x)

    @jax.custom_vjp
    def unfused(x: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.cond(_always(x), activation, zeros, x))

    def forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return unfused(x), x

    def backward(x: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
        result = jax.lax.cond(_always(x), gradient, zeros, x, cotangent)
        return (jnp.asarray(result),)

    unfused.defvjp(forward, backward)
    return unfused


def _always(x: jax.Array) -> jax.Array:
    """True, which the compiler cannot know."""
    return ~(x.ravel()[0] > jnp.inf)
