import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ditto.errors import FixedPointTypeError, MessageError
from ditto.fixedpoint import Ring
from ditto.sharing import derive_key, point_trees, points
from ditto.sharing.points import expand_points, point_bytes, split_points
from tests.conformance.statistics import View, leaks

DRAWS = 1 << 14
REFUSE_BELOW = 1e-10
"""Fewer than 5000 p-values are computed in this file."""

DEPTH = 30
"""At 32 bits: eight leaves, three levels, and a last leaf that is not full."""
SECRETS = (5, 18)
"""Two indices whose paths and lanes differ."""


def add_up(indices: np.ndarray, depth: int, bits: int) -> np.ndarray:
    keys = split_points(indices, depth=depth, bits=bits)
    a, b = (
        expand_points(key, depth=depth, bits=bits, side=side)
        for side, key in enumerate(keys)
    )
    assert a.dtype == b.dtype == Ring(bits).dtype
    assert a.shape == b.shape == (np.size(indices), depth)
    return a + b


def one_hot(indices: np.ndarray, depth: int) -> np.ndarray:
    return np.arange(depth) == np.reshape(indices, (-1, 1))


# The two shares


@settings(deadline=None)
@given(depth=st.integers(1, 3000), bits=st.sampled_from([32, 64]), data=st.data())
def test_the_shares_add_up_to_the_one_hot_vectors(
    depth: int, bits: int, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, depth - 1), max_size=9))
    indices = np.array(numbers, np.int64)
    assert np.array_equal(add_up(indices, depth, bits), one_hot(indices, depth))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "depth", [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 63, 64, 65, 1024, 1025]
)
def test_every_edge_of_the_tree(depth: int, bits: int) -> None:
    indices = np.arange(depth) if depth < 100 else np.array([0, 1, depth - 1])
    assert np.array_equal(add_up(indices, depth, bits), one_hot(indices, depth))


@pytest.mark.parametrize("bits", [32, 64])
def test_a_vocabulary(bits: int) -> None:
    depth = 50257
    indices = np.array([[0, 1, 25128], [32767, 32768, depth - 1]], np.uint16)
    assert np.array_equal(add_up(indices, depth, bits), one_hot(indices, depth))


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, _ = split_points(np.arange(20), depth=100, bits=32)
    whole = expand_points(keys, depth=100, bits=32, side=0)
    monkeypatch.setattr(points, "_SLICE", 75)
    assert np.array_equal(expand_points(keys, depth=100, bits=32, side=0), whole)


def test_no_points() -> None:
    a, b = split_points(np.zeros((0, 3), np.int64), depth=1000, bits=32)
    assert a.shape == b.shape == (0, point_bytes(1000, 32))
    assert expand_points(a, depth=1000, bits=32, side=0).shape == (0, 1000)


def test_keys_may_be_views_of_a_message() -> None:
    keys, _ = split_points(np.arange(6), depth=50, bits=64)
    share = expand_points(keys, depth=50, bits=64, side=0)
    received = np.frombuffer(b"head" + keys.tobytes(), np.uint8)[4:].reshape(6, -1)
    assert np.array_equal(expand_points(received, depth=50, bits=64, side=0), share)
    every_other = expand_points(keys[::2], depth=50, bits=64, side=0)
    assert np.array_equal(every_other, share[::2])


# The format and the cost


def evaluate(key: bytes, position: int, *, depth: int, bits: int, side: int) -> int:
    """One element of a share, by the book: bytes and Python integers."""
    leaves = -(-depth * bits // 128)
    levels = (leaves - 1).bit_length()
    salt, root, last = key[:16], key[16:32], key[32:48]
    seeds, controls = key[48 : 48 + 16 * levels], key[48 + 16 * levels :]

    def generate(label: str, seed: int) -> int:
        aes = algorithms.AES(derive_key(salt, session=b"", label=f"points {label}"))
        block = seed.to_bytes(16, "little")
        made = Cipher(aes, modes.ECB()).encryptor().update(block)  # noqa: S305
        return int.from_bytes(made, "little") ^ seed

    seed, control = int.from_bytes(root, "little"), side
    leaf, lane = divmod(position, 128 // bits)
    for level in range(levels):
        turn = leaf >> (levels - 1 - level) & 1
        block = generate(("left", "right")[turn], seed)
        if control:
            correction = seeds[16 * level : 16 * (level + 1)]
            block ^= int.from_bytes(correction, "little")
            block ^= controls[level] >> turn & 1
        seed, control = block & ~1, block & 1
    value = generate("leaf", seed) >> lane * bits
    if control:
        value += int.from_bytes(last, "little") >> lane * bits
    return (-value if side else value) % 2**bits


@pytest.mark.parametrize(("depth", "bits"), [(3, 32), (30, 32), (77, 64), (600, 32)])
def test_the_expansion_is_the_textbook_evaluation(depth: int, bits: int) -> None:
    index = depth // 3
    keys = split_points(np.array([index]), depth=depth, bits=bits)
    for side, key in enumerate(keys):
        share = expand_points(key, depth=depth, bits=bits, side=side)[0]
        for position in {0, 1, index - 1, index, index + 1, depth // 2, depth - 1}:
            expected = evaluate(
                key.tobytes(), position, depth=depth, bits=bits, side=side
            )
            assert share[position] == expected


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize(
    ("depth", "bits", "levels"),
    [
        (1, 32, 0),
        (4, 32, 0),
        (5, 32, 1),
        (8, 32, 1),
        (9, 32, 2),
        (2, 64, 0),
        (3, 64, 1),
        (50257, 32, 14),
        (50257, 64, 15),
    ],
)
def test_declared_cost_is_measured_cost(
    depth: int, bits: int, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = 0
    generate = point_trees.generate

    def counted(cipher: point_trees.CipherContext, seeds: np.ndarray) -> np.ndarray:
        nonlocal blocks
        blocks += seeds.size // 2
        return generate(cipher, seeds)

    for module in (points, point_trees):
        monkeypatch.setattr(module, "generate", counted)
    count = 2
    a, b = split_points(np.zeros(count, np.int64), depth=depth, bits=bits)
    assert a.dtype == b.dtype == np.uint8
    assert a.shape == b.shape == (count, 48 + 17 * levels)
    assert point_bytes(depth, bits) == 48 + 17 * levels
    assert blocks == count * (4 * levels + 2)

    blocks = 0
    expand_points(a, depth=depth, bits=bits, side=0)
    leaves = -(-depth * bits // 128)
    above = sum(-(-leaves // 2**height) for height in range(1, levels + 1))
    assert blocks == count * (leaves + 2 * above)
    assert blocks <= count * (3 * leaves + 2 * levels)


# What one side sees


def fields(keys: np.ndarray) -> View:
    """A side's key: the two words of each block, and the control bits of each level."""
    levels = (keys.shape[1] - 48) // 17
    body = np.ascontiguousarray(keys[:, 16 : 48 + 16 * levels]).view(np.uint64)
    view: View = {}
    for block, name in enumerate(
        ["root", "last", *map("seed {}".format, range(levels))]
    ):
        low, high = body[:, 2 * block], body[:, 2 * block + 1]
        if name == "last":
            view[f"received {name} low"] = (64, low)
        else:
            assert not np.any(low & np.uint64(1))
            view[f"received {name} low"] = (63, low >> np.uint64(1))
        view[f"received {name} high"] = (64, high)
    for level in range(levels):
        view[f"received controls {level}"] = (2, keys[:, 48 + 16 * levels + level])
    return view


def draw(index: int, side: int) -> np.ndarray:
    return split_points(np.full(DRAWS, index), depth=DEPTH, bits=32)[side]


@pytest.mark.parametrize("side", [0, 1])
def test_a_key_is_uniform_whatever_the_index(side: int) -> None:
    first, second = (fields(draw(index, side)) for index in SECRETS)
    assert leaks(first, second) == []


@pytest.mark.parametrize("side", [0, 1])
def test_every_byte_of_a_key_is_uniform(side: int) -> None:
    keys = draw(SECRETS[0], side)
    levels = (keys.shape[1] - 48) // 17
    for place in range(16, keys.shape[1]):
        column, values = keys[:, place], 256
        if place >= 48 + 16 * levels:
            values = 4
        elif place % 16 == 0 and place != 32:
            column, values = column >> 1, 128
        counts = np.bincount(column, minlength=values)
        assert counts.size == values
        assert stats.chisquare(counts).pvalue > REFUSE_BELOW, place


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("index", SECRETS)
def test_control_bits_are_balanced(side: int, index: int) -> None:
    keys = draw(index, side)
    for column in keys[:, -3:].T:
        for bit in (column & 1, column >> 1, (column & 1) ^ (column >> 1)):
            ones = stats.binomtest(int(bit.sum()), DRAWS)
            assert ones.pvalue > REFUSE_BELOW


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_share_looks_the_same_at_the_index_and_elsewhere(
    bits: int, side: int
) -> None:
    index = SECRETS[0]
    keys = split_points(np.full(DRAWS, index), depth=DEPTH, bits=bits)[side]
    share = expand_points(keys, depth=DEPTH, bits=bits, side=side)
    octets = share.view(np.uint8).reshape(DRAWS, DEPTH, bits // 8)
    at_index = np.bincount(octets[:, index].reshape(-1), minlength=256)
    for position in range(DEPTH):
        for place in range(bits // 8):
            counts = np.bincount(octets[:, position, place], minlength=256)
            assert stats.chisquare(counts).pvalue > REFUSE_BELOW
        if position == index:
            continue
        elsewhere = np.bincount(octets[:, position].reshape(-1), minlength=256)
        table = [at_index, elsewhere]
        assert stats.chi2_contingency(table).pvalue > REFUSE_BELOW
        gap = (share[:, index] - share[:, position]).astype(np.uint8)
        counts = np.bincount(gap, minlength=256)
        assert stats.chisquare(counts).pvalue > REFUSE_BELOW


def test_nothing_is_drawn_twice() -> None:
    calls = [split_points(np.full(64, 7), depth=DEPTH, bits=32) for _ in range(8)]
    salts = {key[:16].tobytes() for keys in calls for side in keys for key in side}
    assert len(salts) == len(calls)
    roots = {key[16:32].tobytes() for keys in calls for side in keys for key in side}
    assert len(roots) == 2 * 64 * len(calls)


def test_both_sides_have_the_same_salt_and_corrections() -> None:
    a, b = split_points(np.arange(DEPTH), depth=DEPTH, bits=32)
    same = np.all(a == b, axis=0)
    assert same[:16].all()
    assert same[32:].all()
    assert not same[16:32].any()


# What is refused


@pytest.mark.parametrize("index", [-1, -987654, 1000, 987654, 2**63 + 987654])
def test_an_index_out_of_range_is_refused_and_not_named(index: int) -> None:
    with pytest.raises(ValueError, match=r"lies in \[0, 1000\)") as refused:
        split_points(np.array([index]), depth=1000, bits=32)
    text = str(refused.value).replace("[0, 1000)", "")
    assert not any(character.isdigit() for character in text)


def test_indices_are_integers() -> None:
    with pytest.raises(ValueError, match="float64"):
        split_points(np.array([1.0]), depth=5, bits=32)


@pytest.mark.parametrize("change", [-1, 1, -17, 17])
def test_keys_of_the_wrong_size_are_refused(change: int) -> None:
    keys = np.zeros((3, point_bytes(100, 32) + change), np.uint8)
    with pytest.raises(MessageError, match="rows of 133 bytes"):
        expand_points(keys, depth=100, bits=32, side=0)


def test_keys_of_the_wrong_form_are_refused() -> None:
    keys, _ = split_points(np.arange(3), depth=100, bits=32)
    for wrong in (keys[0], keys[None], keys.astype(np.uint16), keys.view(np.int8)):
        with pytest.raises(MessageError, match="got"):
            expand_points(wrong, depth=100, bits=32, side=0)
    with pytest.raises(MessageError, match="100 elements of 64 bits"):
        expand_points(keys, depth=100, bits=64, side=0)


def test_keys_of_two_calls_are_refused() -> None:
    keys = [split_points(np.arange(3), depth=100, bits=32)[0] for _ in range(2)]
    with pytest.raises(MessageError, match="one salt"):
        expand_points(np.concatenate(keys), depth=100, bits=32, side=0)


@pytest.mark.parametrize(("place", "bit"), [(16, 1), (48, 1), (64, 1), (-1, 4)])
def test_bits_outside_the_format_are_refused(place: int, bit: int) -> None:
    keys, _ = split_points(np.arange(3), depth=100, bits=32)
    keys[1, place] |= bit
    with pytest.raises(MessageError, match="leaves clear"):
        expand_points(keys, depth=100, bits=32, side=0)


def test_parameters_that_make_no_tree_are_refused() -> None:
    with pytest.raises(FixedPointTypeError, match="bits=12"):
        point_bytes(100, 12)
    with pytest.raises(ValueError, match="depth=0"):
        point_bytes(0, 32)
    keys, _ = split_points(np.arange(3), depth=100, bits=32)
    with pytest.raises(ValueError, match="got 2"):
        expand_points(keys, depth=100, bits=32, side=2)


def test_the_format_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients and parties of different versions have to agree on it."""
    monkeypatch.setattr(
        points.os, "urandom", lambda size: hashlib.shake_128(b"seed").digest(size)
    )
    a, b = split_points(np.array([18, 5]), depth=DEPTH, bits=32)
    digest = hashlib.sha256(a.tobytes() + b.tobytes())
    for side, keys in enumerate((a, b)):
        digest.update(expand_points(keys, depth=DEPTH, bits=32, side=side).tobytes())
    assert digest.hexdigest()[:16] == "e8f602b71fa34e54"
