"""One table of operations: each has a meaning, and a shape that follows from it."""

import jax.numpy as jnp
import numpy as np
import pytest

from ditto.operations import PRIMITIVES, TRAITS, evaluate, infer
from ditto.operations.own import OWN

X = np.array([[0.5, 1.0, -2.0], [3.0, -0.25, 4.0]], np.float32)
CALLS = {
    "add": ({}, (X, X), X + X),
    "exp_negative": ({}, (X,), np.exp(X)),
    "lookup": ({}, (X, np.array([1, 0, 1])), X[[1, 0, 1]]),
    "bounded_max": ({"axes": [1], "bound": -100.0}, (X,), X.max(1)),
    "reciprocal": ({}, (X,), 1 / X),
    "within": ({"low": -8.0, "high": 8.0}, (X,), X),
}


def test_every_operation_of_ours_has_a_row() -> None:
    assert set(OWN) <= set(TRAITS)
    assert set(PRIMITIVES) <= set(TRAITS)


@pytest.mark.parametrize("op", CALLS)
def test_an_operation_means_what_its_name_says(op: str) -> None:
    params, operands, expected = CALLS[op]
    arrays = [jnp.asarray(each) for each in operands]
    result = evaluate(op, params, arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    signatures = tuple((each.shape, each.dtype.name) for each in arrays)
    assert infer(op, params, signatures) == (expected.shape, "float32")
