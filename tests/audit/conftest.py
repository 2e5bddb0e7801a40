"""What tests of audited plans have in common: a plan of products, and parties."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.plan import Plan
from ditto.runtime import ThreadTrio

rng = np.random.default_rng(4)
A = rng.normal(size=(6, 5)).astype(np.float32) / 3
B = rng.normal(size=(5, 4)).astype(np.float32)


def computed(a: Any, b: Any) -> Any:
    """A product of matrices, one by elements, one of rows and a sum of squares."""
    c = a @ b
    scaled = c * jnp.sum(c * c, axis=1, keepdims=True)
    return scaled * c


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ditto.compile(computed, (A, B), calibration=[(A, B)])


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=20.0) as parties:
        yield parties
