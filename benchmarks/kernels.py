"""The local products of a Transformer by XLA and by each level of the C kernels."""

import time
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from benchmarks import show
from ditto.fixedpoint import FxpType
from ditto.native import Level, library, multiply, pack
from ditto.native.library import levels
from ditto.protocols import kernels
from ditto.sharing import Shared

Words = npt.NDArray[np.uint32]
TYPE = FxpType(32, 8)
CASES = {
    "feed-forward, 128 tokens": ("sd,dk->sk", (128, 768), (768, 3072), True),
    "attention output, 128 tokens": ("sd,dk->sk", (128, 768), (768, 768), True),
    "scores, 12 heads": ("hqd,hkd->hqk", (12, 128, 64), (12, 128, 64), False),
    "values, 12 heads": ("hqk,hkd->hqd", (12, 128, 128), (12, 128, 64), False),
    "feed-forward, one token": ("sd,dk->sk", (1, 768), (768, 3072), True),
    "feed-forward, 16 conversations": ("sd,dk->sk", (16, 768), (768, 3072), True),
}
"""Of BERT-base and GPT2-base: subscripts, shapes, whether the second is a weight."""


def bench_kernels(repeat: int) -> list[dict[str, Any]]:
    """The best seconds of each kernel in turn, so that all meet the same machine."""
    rng = np.random.default_rng(0)
    variants = [Level.XLA, *(levels() if library.library() else [])]
    results = []
    for name, (subscripts, left, right, is_weight) in CASES.items():
        xs, ws = ([_words(rng, shape) for _ in range(2)] for shape in (left, right))
        y = Shared(ws[0], ws[1] - ws[0], TYPE)  # so that its sum is the second
        held = kernels.prepared(y)
        packed = {v: [pack(subscripts, w, v) for w in ws[::-1]] for v in variants[1:]}
        seconds = dict.fromkeys(variants, float("inf"))
        answers = {}
        for _ in range(repeat):
            for variant in variants:
                started = time.perf_counter()
                if variant is Level.XLA:
                    sides = [held.total, held.first]
                    kernel = kernels._int32_kernel(subscripts)
                    operands = [xs[0], sides[0], xs[1], sides[1]]
                    z = np.asarray(kernel(*map(kernels._as_int32, operands)))
                else:
                    others = packed[variant] if is_weight else ws[::-1]
                    z = multiply(subscripts, xs, others, at=variant)
                elapsed = time.perf_counter() - started
                seconds[variant] = min(seconds[variant], elapsed)
                answers[variant] = z.view(np.uint32)
        if any(not np.array_equal(z, answers[Level.XLA]) for z in answers.values()):
            raise AssertionError(f"Two kernels disagree on {name}.")
        products = 2 * _products(subscripts, left, right)
        results += [
            {
                "product": name,
                "kernel": variant.name,
                "seconds": spent,
                "gmac_per_second": products / spent / 1e9,
                "against_xla": seconds[Level.XLA] / spent,
            }
            for variant, spent in seconds.items()
        ]
    return results


def _words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32)


def _products(subscripts: str, left: tuple[int, ...], right: tuple[int, ...]) -> int:
    inputs = subscripts.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, (left, right), strict=True):
        sizes |= dict(zip(labels, shape, strict=True))
    return int(np.prod(list(sizes.values())))


def main(
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=2)] = 15,
) -> None:
    """Local products modulo 2^32: XLA beside every level of the C kernels.

    All are timed in turn in one process, and the best of their runs is shown; they must
    give the same words.
    """
    results = bench_kernels(repeat)
    lines = [
        [
            r["product"],
            r["kernel"],
            f"{r['seconds'] * 1e3:.2f}",
            f"{r['gmac_per_second']:.1f}",
            f"{r['against_xla']:.1f}",
        ]
        for r in results
    ]
    columns = ["ms", "GMAC/s", "against XLA"]
    show.show("local products", ["product", "kernel"], columns, lines, markdown_file)
    show.write(json_file, results)


if __name__ == "__main__":
    show.run(main)
