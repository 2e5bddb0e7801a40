"""The C kernels are exact: every level that the machine has, against numpy."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ditto.errors import SetupError
from ditto.native import Level, library, multiply, pack
from ditto.native.library import VARIABLE, levels
from ditto.native.products import form_of, packing_of

HERE = Path(__file__).parent
Words = npt.NDArray[np.uint32]

pytestmark = pytest.mark.skipif(
    library.library() is None, reason="this installation has no C kernels"
)
LEVELS = levels() if library.library() is not None else []
EDGES = np.array(
    [
        *(0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x10000),
        *(0x7FFFFFFF, 0x80000000, 0x80008000, 0xFFFF8000, 0x7FFF8000, 0xFFFFFFFF),
    ],
    np.uint32,
)
SHAPES = [
    *((1, 1, 1), (1, 64, 16), (5, 63, 17), (16, 64, 16), (17, 65, 33), (6, 130, 47)),
    *((128, 768, 96), (1, 768, 300), (33, 1000, 100), (13, 1600, 40)),
]
EINSUMS = [
    ("hqd,hkd->hqk", (12, 33, 64), (12, 40, 64)),
    ("hqk,hkd->hqd", (3, 20, 70), (3, 70, 18)),
    ("qhd,khd->hqk", (31, 3, 20), (29, 3, 20)),
    ("hqk,khd->qhd", (3, 5, 19), (19, 3, 40)),
    ("bij,jk->bik", (2, 9, 70), (70, 33)),
    ("ijab,abk->ijk", (2, 3, 5, 9), (5, 9, 20)),
    ("abij,abjk->abik", (2, 3, 4, 65), (2, 3, 65, 18)),
    ("ij,kj->ki", (7, 66), (21, 66)),
    ("i,j->ij", (5,), (20,)),
    ("i,i->", (100,), (100,)),
    ("bi,bi->b", (4, 30), (4, 30)),
]


def words(rng: np.random.Generator, *shape: int) -> Words:
    """Random words, a fifth of them at an edge of bytes, halves or words."""
    drawn = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    return np.where(rng.random(shape) < 0.2, rng.choice(EDGES, shape), drawn)


def exact(subscripts: str, x: Words, w: Words) -> Words:
    wide = np.einsum(subscripts, x.astype(np.int64), w.astype(np.int64))
    return np.asarray(wide & 0xFFFFFFFF, np.uint32)


def test_this_machine_has_a_level_to_test() -> None:
    """A machine without AVX2 cannot run SPU either."""
    assert LEVELS
    assert library.level() == max(LEVELS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_exact(level: Level, shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    rng = np.random.default_rng(rows)
    xs = [words(rng, rows, depth) for _ in range(2)]
    ws = [words(rng, depth, columns) for _ in range(2)]
    expected = exact("ij,jk->ik", xs[0], ws[0]) + exact("ij,jk->ik", xs[1], ws[1])
    packed = [pack("ij,jk->ik", w, level) for w in ws]
    for threads in (1, 2, 3):
        for right in (ws, packed):
            z = multiply("ij,jk->ik", xs, right, threads=threads, at=level)
            np.testing.assert_array_equal(z, expected)
    z = multiply("ij,jk->ik", xs[:1], packed[:1], at=level)
    np.testing.assert_array_equal(z, exact("ij,jk->ik", xs[0], ws[0]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [0x80008000, 0xFFFFFFFF, 0x7FFF7FFF, 0x80808080])
def test_sums_that_overflow_wrap(level: Level, value: int) -> None:
    """Where a saturating instruction would be wrong."""
    x, w = (np.full(shape, value, np.uint32) for shape in ((17, 3000), (3000, 19)))
    z = multiply("ij,jk->ik", [x], [w], at=level)
    np.testing.assert_array_equal(z, exact("ij,jk->ik", x, w))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("subscripts", "left", "right"), EINSUMS)
def test_forms_of_attention_and_others(
    level: Level, subscripts: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    xs, ws = [words(rng, *left) for _ in "ab"], [words(rng, *right) for _ in "ab"]
    expected = exact(subscripts, xs[0], ws[0]) + exact(subscripts, xs[1], ws[1])
    for right_side in (ws, [pack(subscripts, w, level) for w in ws]):
        z = multiply(subscripts, xs, right_side, at=level)
        np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data())
@settings(max_examples=60)
def test_any_shape_and_any_strides(level: Level, data: st.DataObject) -> None:
    sizes = st.integers(1, 70)
    batch, rows, depth, columns = (data.draw(sizes) for _ in range(4))
    batch = min(batch, 5)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    x, w = words(rng, batch, rows, depth), words(rng, batch, depth, columns)
    flips = data.draw(st.tuples(*[st.booleans()] * 4))
    x = np.asfortranarray(x) if flips[0] else x
    w = np.asfortranarray(w) if flips[1] else w
    x = x[:, ::-1] if flips[2] else x
    w = w[:, :, ::2] if flips[3] else w
    z = multiply("bij,bjk->bik", [x], [w], at=level)
    np.testing.assert_array_equal(z, exact("bij,bjk->bik", x, w))
    z = multiply("bij,bjk->bik", [x], [pack("bij,bjk->bik", w, level)], at=level)
    np.testing.assert_array_equal(z, exact("bij,bjk->bik", x, w))


@pytest.fixture
def _emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels compiled for a machine whose tiles are plain C."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or Level.VNNI not in LEVELS:
        pytest.skip("needs a C compiler and AVX512")
    made, tiles = tmp_path / "libditto.so", HERE / "emulated_tiles.h"
    source = library.LIBRARY.with_name("products.c")
    flags = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", f'-DTILES="{tiles}"']
    command = [compiler, *flags, "-o", str(made), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    monkeypatch.setattr(library, "library", lambda: library.load(made))


@pytest.mark.usefixtures("_emulated")
def test_the_products_of_tiles_are_exact_where_there_are_none() -> None:
    rng = np.random.default_rng(4)
    for rows, depth, columns in ((1, 1, 1), (17, 65, 33), (40, 900, 20)):
        xs = [words(rng, rows, depth) for _ in range(2)]
        ws = [words(rng, depth, columns) for _ in range(2)]
        expected = exact("ij,jk->ik", xs[0], ws[0]) + exact("ij,jk->ik", xs[1], ws[1])
        packed = [pack("ij,jk->ik", w, Level.AMX) for w in ws]
        for right in (ws, packed):
            z = multiply("ij,jk->ik", xs, right, at=Level.AMX)
            np.testing.assert_array_equal(z, expected)
    assert library._is_right(Level.AMX)


def test_threads_that_multiply_at_once_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(2)
    cases = [(words(rng, 40 + k, 700), words(rng, 700, 90)) for k in range(6)]
    results: list[Words] = [np.empty(0, np.uint32)] * len(cases)

    def work(k: int) -> None:
        for _ in range(10):
            results[k] = multiply("ij,jk->ik", [cases[k][0]], [cases[k][1]])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (x, w), z in zip(cases, results, strict=True):
        np.testing.assert_array_equal(z, exact("ij,jk->ik", x, w))


def test_nothing_is_read_or_written_for_nothing() -> None:
    for rows, depth, columns in ((0, 4, 5), (3, 0, 5), (3, 4, 0)):
        x, w = np.ones((rows, depth), np.uint32), np.ones((depth, columns), np.uint32)
        z = multiply("ij,jk->ik", [x], [w])
        assert z.shape == (rows, columns)
        assert not z.any()


def test_what_does_not_fit_is_refused() -> None:
    x, w = np.ones((3, 4), np.uint32), np.ones((5, 6), np.uint32)
    with pytest.raises(ValueError, match="do not fit together"):
        multiply("ij,jk->ik", [x], [w])
    with pytest.raises(ValueError, match="do not fit together"):
        multiply("ij,jk->ik", [x], [pack("ij,jk->ik", w)])
    with pytest.raises(ValueError, match="or the sum of two"):
        multiply("ij,jk->ik", [x] * 3, [w] * 3)


@pytest.mark.parametrize(
    "subscripts", ["ii,ij->ij", "ij,jk->i", "i...,i->...", "ij->i"]
)
def test_what_is_no_product_of_matrices_is_left_to_others(subscripts: str) -> None:
    assert form_of(subscripts) is None


def test_prompts_and_tokens_share_packed_weights() -> None:
    assert packing_of("bsd,dk->bsk") == packing_of("bd,dk->bk")
    assert packing_of("bd,dk->bk") != packing_of("bd,kd->bk")


def chosen_level(**environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "from ditto import native; print(native.level().name)"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_lower_level_can_be_asked_for() -> None:
    for level in (Level.XLA, *LEVELS):
        assert (
            chosen_level(**{VARIABLE: level.name.lower()}).stdout.strip() == level.name
        )
    assert "it can be xla, avx2, vnni, amx" in chosen_level(**{VARIABLE: "gpu"}).stderr


def test_a_level_that_multiplies_wrongly_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    best = max(LEVELS)
    right = library._is_right
    monkeypatch.setattr(library, "_is_right", lambda each: each < best and right(each))
    lower = max([level for level in LEVELS if level < best], default=Level.XLA)
    assert library.level.__wrapped__() == lower
    assert f"{best.name} multiplies wrongly" in caplog.text


def test_a_library_that_cannot_be_loaded_is_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "libditto.so"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(library, "LIBRARY", broken)
    assert library.library.__wrapped__() is None
    assert "XLA serves" in caplog.text
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "absent.so")
    assert library.library.__wrapped__() is None


def test_an_unknown_level_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gpu")
    with pytest.raises(SetupError, match="it can be xla, avx2, vnni, amx"):
        library.level.__wrapped__()
