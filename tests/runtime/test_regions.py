"""JAX functions on SPU: results leave in every kind of storage, failures by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.errors import EngineError, FixedPointTypeError, UnsupportedOperationError
from ditto.fixedpoint import FxpType, decode, encode
from ditto.frames import Arrays, Json
from ditto.runtime import Public, Session, ThreadTrio, compile_region
from ditto.sharing import Shared, SharedBits, combine, combine_bits, deal

HIGH, LOW = FxpType(bits=64, frac=18), FxpType(bits=32, frac=8)
INTEGERS = FxpType(bits=32, frac=0)
VALUES = np.array([[1.5, -2.0, 0.25], [3.0, -0.5, 8.0]])


def arguments(*shapes: tuple[int, ...], dtype: object = jnp.float32) -> list:
    return [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]


@pytest.fixture
def trio():
    with ThreadTrio() as parties:
        yield parties


def run(trio: ThreadTrio, region, values: np.ndarray, kind: FxpType) -> list[list]:
    """The results of a region of one argument: for each output, three shares."""
    dealt = deal(encode(values, kind), kind)
    gathered: list[list] = [None, None, None]

    def program(session: Session, _: Json, __: Arrays) -> tuple[Json, Arrays]:
        rank = session.party.rank
        gathered[rank] = session.runtimes.run(region, [dealt[rank]])
        return {}, {}

    trio.call(program)
    return [list(column) for column in zip(*gathered, strict=True)]


def test_every_kind_of_storage(trio: ThreadTrio) -> None:
    region = compile_region(
        lambda x: (x * 2, x > 0, jnp.floor(x), jnp.ones(3), (x > 1).astype(jnp.int32)),
        arguments(VALUES.shape),
        bits=64,
        name="storage",
    )
    doubled, positive, floored, ones, above = run(trio, region, VALUES, HIGH)
    assert np.abs(decode(combine(doubled), HIGH) - 2 * VALUES).max() <= HIGH.ulp
    assert np.array_equal(combine_bits(positive), VALUES > 0)
    planes = combine_bits(floored)  # a boolean share of 64-bit words: a bit a plane
    assert planes.shape == (*VALUES.shape, 64)
    words = (planes.astype(np.uint64) << np.arange(64, dtype=np.uint64)).sum(-1)
    assert np.array_equal(decode(words.astype(np.uint64), HIGH), np.floor(VALUES))
    assert all(isinstance(value, Public) for value in ones)
    assert decode(ones[0].integers, ones[0].type).tolist() == [1, 1, 1]
    assert all(isinstance(value, SharedBits) for value in above)
    assert np.array_equal(combine_bits(above), VALUES > 1)


def test_integers_of_any_frac_run_in_the_low_ring(trio: ThreadTrio) -> None:
    region = compile_region(
        lambda x: x.max(-1),
        arguments(VALUES.shape, dtype=jnp.int32),
        bits=32,
        name="max",
    )
    fine = FxpType(bits=32, frac=22)
    (maxima,) = run(trio, region, VALUES, fine)
    assert maxima[0].type == INTEGERS
    assert decode(combine(maxima), fine).tolist() == [1.5, 8.0]


def test_spu_traffic_is_counted_exactly(trio: ThreadTrio) -> None:
    region = compile_region(lambda x: x * x, arguments((1000,)), bits=64, name="square")
    dealt = deal(encode(np.ones(1000), HIGH), HIGH)
    counts: list = [None] * 3

    def program(session: Session, _: Json, __: Arrays) -> tuple[Json, Arrays]:
        rank, link = session.party.rank, session.spu_link
        session.runtimes.put(region, [dealt[rank]])
        link.restart_clock()
        before = link.traffic().bytes
        session.runtimes.execute(region)
        counts[rank] = (link.traffic().bytes - before, link.traffic().rounds)
        session.runtimes.take(region)
        return {}, {}

    trio.call(program)
    assert 8 * sum(sent for sent, _ in counts) == 416 * 1000
    assert max(rounds for _, rounds in counts) == 3


def test_an_operation_spu_cannot_compile_is_named_with_its_scope() -> None:
    def model(x: jax.Array) -> jax.Array:
        with jax.named_scope("encoder.layer.0"):
            return jnp.fft.fft(jnp.tanh(x)).real

    with pytest.raises(UnsupportedOperationError) as caught:
        compile_region(model, arguments((8,)), bits=64, name="bert")
    assert caught.value.operation == "fft"
    assert caught.value.scope == "bert/encoder.layer.0"


def test_an_operation_that_fails_in_spu_is_named_with_its_scope(
    trio: ThreadTrio,
) -> None:
    def model(x: jax.Array) -> jax.Array:
        with jax.named_scope("norm"):
            return jax.lax.rsqrt(x)

    region = compile_region(model, arguments(VALUES.shape), bits=32, name="layer")
    with pytest.raises(EngineError, match="64-bit ring") as caught:
        run(trio, region, VALUES, LOW)
    assert caught.value.operation == "Rsqrt"
    assert caught.value.scope == "layer/norm"
    assert "could not represent" not in caught.value.public_message()


def test_a_region_refuses_shares_of_another_type(trio: ThreadTrio) -> None:
    region = compile_region(
        lambda x: x + 1, arguments(VALUES.shape), bits=64, name="add"
    )
    with pytest.raises(FixedPointTypeError, match=r"takes fxp64\.18, got fxp64\.17"):
        run(trio, region, VALUES, FxpType(bits=64, frac=17))


def test_both_rings_multiply_small_and_large(trio: ThreadTrio) -> None:
    rng = np.random.default_rng(3)
    for bits, kind in ((32, LOW), (64, HIGH)):
        for size in (3, 200):
            x = rng.uniform(-0.5, 0.5, (size, size))
            region = compile_region(
                lambda a: a @ a.T, arguments(x.shape), bits=bits, name="matmul"
            )
            (product,) = run(trio, region, x, kind)
            assert isinstance(product[0], Shared)
            exact = decode(encode(x, kind), kind)
            error = decode(combine(product), kind) - exact @ exact.T
            assert np.abs(error).max() <= 1.01 * kind.ulp
