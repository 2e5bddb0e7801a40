"""Functions for the conformance suite: one for each primitive, and the composites.

Each case has inputs that exercise it and, for each profile, the largest error allowed
against float. A bound of 0 means exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RNG = np.random.default_rng(7)
REAL = RNG.uniform(-3, 3, (4, 6)).astype(np.float32)
OTHER = RNG.uniform(-3, 3, (4, 6)).astype(np.float32)
POSITIVE = RNG.uniform(0.4, 6, (4, 6)).astype(np.float32)
UNIT = RNG.uniform(-0.9, 0.9, (4, 6)).astype(np.float32)
WHOLE = RNG.integers(-9, 9, (4, 6)).astype(np.int32)
OTHER_WHOLE = RNG.integers(-9, 9, (4, 6)).astype(np.int32)
MATRIX = RNG.uniform(-1, 1, (6, 5)).astype(np.float32)
BATCH = RNG.uniform(-1, 1, (3, 4, 6)).astype(np.float32)
OTHER_BATCH = RNG.uniform(-1, 1, (3, 6, 5)).astype(np.float32)
TABLE = RNG.normal(size=(11, 3)).astype(np.float32)
IDS = np.array([[3, 10, 0], [1, 1, 7]], np.int32)
PUBLIC = RNG.uniform(-2, 2, (4, 6)).astype(np.float32)
MASK = RNG.random((4, 6)) > 0.3
IMAGE = RNG.uniform(-1, 1, (1, 5, 5, 2)).astype(np.float32)
KERNEL = RNG.uniform(-1, 1, (3, 3, 2, 4)).astype(np.float32)
PIECES = 4.7 * 0.002
"""How far a piece may be off at the ends of its cells: d^3 is off by 4.46 times as much
there as its error says; what all of them come to is in test_pieces.py."""


@dataclass(frozen=True)
class Case:
    """One function; ``error`` by profile."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    spu: float = 2e-4
    ditto: float = 2e-3
    public: tuple[int, ...] = ()

    def allowed(self, profile: str) -> float:
        return self.spu if profile == "spu" else self.ditto


def _norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


PRIMITIVES = (
    Case("abs", jnp.abs, (REAL,)),
    Case("add", jnp.add, (REAL, OTHER)),
    Case("add_public", lambda x: x + PUBLIC, (REAL,)),
    Case("and", lambda x, y: (x > 0) & (y > 0), (REAL, OTHER), 0, 0),
    Case("argmax", lambda x: jnp.argmax(x, -1), (REAL,), 0, 0),
    Case("argmin", lambda x: jnp.argmin(x, -1), (REAL,), 0, 0),
    Case(
        "broadcast_in_dim", lambda x: jnp.broadcast_to(x[:, None], (4, 3, 6)), (REAL,)
    ),
    Case("ceil", jnp.ceil, (REAL,), 0, 0),
    Case("clamp", lambda x: lax.clamp(-1.0, x, 1.5), (REAL,)),
    Case("concatenate", lambda x, y: jnp.concatenate([x, y, PUBLIC], 1), (REAL, OTHER)),
    Case(
        "conv_general_dilated",
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (IMAGE, KERNEL),
        2e-4,
        2e-4,
    ),
    Case("convert_element_type", lambda i: i.astype(jnp.float32) + 0.5, (WHOLE,)),
    Case("cos", jnp.cos, (UNIT,), 2e-2, 2e-2),
    Case("cumsum", lambda x: jnp.cumsum(x, 1), (REAL,)),
    Case("div", lambda x, y: x / y, (REAL, POSITIVE), 1e-3, 5e-3),
    Case("div_public", lambda x: x / 3.0, (REAL,)),
    Case("dot_general", lambda x, y: x @ y, (REAL, MATRIX)),
    Case("dot_general_batched", lambda x, y: x @ y, (BATCH, OTHER_BATCH)),
    Case("dot_general_public", lambda x: x @ MATRIX, (REAL,)),
    Case("dynamic_slice", lambda x: lax.dynamic_slice(x, (1, 2), (2, 3)), (REAL,)),
    Case(
        "dynamic_update_slice",
        lambda x, y: lax.dynamic_update_slice(x, y[:2, :2], (1, 3)),
        (REAL, OTHER),
    ),
    Case("eq", lambda i, j: i == j, (WHOLE, OTHER_WHOLE), 0, 0),
    Case("erf", lax.erf, (REAL,), 2e-2, 2e-2),
    Case("exp", jnp.exp, (UNIT,), 5e-3, 1e-2),
    Case("exp2", jnp.exp2, (UNIT,), 5e-3, 1e-2),
    Case("expm1", jnp.expm1, (UNIT,), 5e-3, 1e-2),
    Case("floor", jnp.floor, (REAL,), 0, 0),
    Case("gather", lambda x: x[jnp.array([2, 0, 3])], (REAL,)),
    Case("ge", lambda x, y: x >= y, (REAL, OTHER), 0, 0),
    Case("gt", lambda x, y: x > y, (REAL, OTHER), 0, 0),
    Case("integer_pow", lambda x: x**3, (REAL,), 1e-3, 2e-2),
    Case("integer_pow_negative", lambda x: x**-2, (POSITIVE,), 2e-2, 2e-2),
    Case("iota", lambda x: x + lax.iota(jnp.float32, 6), (REAL,)),
    Case("le", lambda x, y: x <= y, (REAL, OTHER), 0, 0),
    Case("log", jnp.log, (POSITIVE,), 1e-2, 1e-2),
    Case("log1p", jnp.log1p, (POSITIVE,), 1e-2, 1e-2),
    Case("logistic", jax.nn.sigmoid, (REAL,), 1e-2, 1e-2),
    Case("lt", lambda x, y: x < y, (REAL, OTHER), 0, 0),
    Case("max", jnp.maximum, (REAL, OTHER)),
    Case("max_public", lambda x: jnp.maximum(x, 0.5), (REAL,)),
    Case("min", jnp.minimum, (REAL, OTHER)),
    Case("mul", jnp.multiply, (REAL, OTHER)),
    Case("mul_integers", jnp.multiply, (WHOLE, OTHER_WHOLE), 0, 0),
    Case("mul_power_of_two", lambda x: x * 0.125, (REAL,)),
    Case("mul_public", lambda x: x * PUBLIC, (REAL,)),
    Case("ne", lambda i, j: i != j, (WHOLE, OTHER_WHOLE), 0, 0),
    Case("neg", jnp.negative, (REAL,)),
    Case("not", lambda x: ~(x > 0), (REAL,), 0, 0),
    Case("or", lambda x, y: (x > 0) | (y > 0), (REAL, OTHER), 0, 0),
    Case("pad", lambda x: jnp.pad(x, ((1, 0), (2, 1)), constant_values=1.5), (REAL,)),
    Case("pow", lambda x: x**0.7, (POSITIVE,), 3e-2, 3e-2),
    Case("reduce_and", lambda x: jnp.all(x > -2.5, 0), (REAL,), 0, 0),
    Case("reduce_max", lambda x: x.max(0), (REAL,)),
    Case("reduce_min", lambda x: x.min(-1), (REAL,)),
    Case("reduce_or", lambda x: jnp.any(x > 2.5, 0), (REAL,), 0, 0),
    Case("reduce_prod", lambda x: x.prod(0), (UNIT,)),
    Case("reduce_sum", lambda x: x.sum(1), (REAL,)),
    Case("reshape", lambda x: x.reshape(3, 8), (REAL,)),
    Case("rev", lambda x: x[::-1], (REAL,)),
    Case(
        "round",
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        (REAL,),
        0,
        0,
    ),
    Case("rsqrt", lax.rsqrt, (POSITIVE,), 1e-2, 1e-2),
    Case("select_n", lambda x, y: jnp.where(x > y, x, y * y), (REAL, OTHER)),
    Case("select_n_public", lambda x: jnp.where(MASK, x, 0.25), (REAL,)),
    Case("select_n_constants", lambda x, y: jnp.where(x > y, 0.3, -0.7), (REAL, OTHER)),
    Case("sub_large_public", lambda x: (x * 100 - 250.5) * 0.01, (REAL,), 1e-3, 5e-3),
    Case("sign", jnp.sign, (REAL,), 0, 0),
    Case("sin", jnp.sin, (UNIT,), 2e-2, 2e-2),
    Case("slice", lambda x: x[1:3, ::2], (REAL,)),
    Case("sort", lambda x: jnp.sort(x, -1), (REAL,)),
    Case("split", lambda x: jnp.split(x, 3, 1)[1], (REAL,)),
    Case("sqrt", jnp.sqrt, (POSITIVE,), 2e-2, 2e-2),
    Case("square", jnp.square, (REAL,)),
    Case("squeeze", lambda x: x[:1].squeeze(0), (REAL,)),
    Case("sub", jnp.subtract, (REAL, OTHER)),
    Case("tanh", jnp.tanh, (REAL,), 1e-2, PIECES),
    Case("transpose", jnp.transpose, (REAL,)),
    Case("xor", lambda x, y: (x > 0) ^ (y > 0), (REAL, OTHER), 0, 0),
    Case(
        "scan",
        lambda x: lax.scan(lambda c, r: (c + r, c * 2), jnp.zeros(6), x),
        (REAL,),
        2e-3,
    ),
)

COMPOSITES = (
    Case(
        "attention",
        lambda q, k, v: jax.nn.softmax(q @ k.mT * 0.4, -1) @ v,
        (BATCH, BATCH * 0.7, BATCH),
        5e-3,
        5e-3,
    ),
    Case(
        "causal_mask",
        lambda s: jax.nn.softmax(
            jnp.where(jnp.tril(jnp.ones((4, 6), bool)), s, -1e9), -1
        ),
        (REAL,),
        5e-3,
        5e-3,
    ),
    Case(
        "additive_mask",
        lambda s, m: jax.nn.softmax(s + m, -1),
        (
            REAL,
            np.where(MASK | (np.arange(6) == 0), 0.0, np.finfo(np.float32).min).astype(
                np.float32
            ),
        ),
        5e-3,
        5e-3,
        public=(1,),
    ),
    Case(
        "public_mask",
        lambda s, m: jax.nn.softmax(jnp.where(m, s, -jnp.inf), -1),
        (REAL, MASK | (np.arange(6) == 0)),
        5e-3,
        5e-3,
        public=(1,),
    ),
    Case("gelu", lambda x: jax.nn.gelu(x, approximate=False), (REAL,), 2e-2, PIECES),
    Case(
        "gelu_by_hand",
        lambda x: x * 0.5 * (1 + lax.erf(x / np.sqrt(2))),
        (REAL,),
        2e-2,
        PIECES,
    ),
    Case(
        "gelu_tanh", lambda x: jax.nn.gelu(x, approximate=True), (REAL,), 2e-2, PIECES
    ),
    Case(
        "gelu_wide",
        lambda x: jax.nn.gelu(x * 12, approximate=False),
        (REAL,),
        5e-2,
        1.5e-2,
    ),
    Case("layer_norm", _norm, (REAL,), 1e-2, 1e-2),
    Case(
        "layer_norm_rsqrt",
        lambda x: (
            (x - x.mean(-1, keepdims=True))
            * lax.rsqrt(
                jnp.mean(x * x, -1, keepdims=True)
                - x.mean(-1, keepdims=True) ** 2
                + 1e-5
            )
        ),
        (REAL,),
        1e-2,
        1e-2,
    ),
    Case("lookup", lambda t, i: t[i], (TABLE, IDS)),
    Case("lookup_one_hot", lambda t, i: jax.nn.one_hot(i, 11) @ t, (TABLE, IDS)),
    Case("log_softmax", lambda x: jax.nn.log_softmax(x, -1), (REAL,), 1e-2, 1e-2),
    Case("relu", jax.nn.relu, (REAL,)),
    Case(
        "rms_norm",
        lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6),
        (REAL,),
        1e-2,
        1e-2,
    ),
    Case("sigmoid", jax.nn.sigmoid, (REAL,), 1e-2, 1e-2),
    Case("silu", jax.nn.silu, (REAL,), 2e-2, PIECES),
    Case("softmax", lambda x: jax.nn.softmax(x, -1), (REAL,), 5e-3, 5e-3),
    Case(
        "softmax_by_hand",
        lambda x: jnp.exp(x - x.max(0)) / jnp.exp(x - x.max(0)).sum(0),
        (REAL,),
        5e-3,
        5e-3,
    ),
    Case("tanh_wide", lambda x: jnp.tanh(x * 8), (REAL,), 2e-2, 1.2e-2),
)
