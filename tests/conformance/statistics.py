"""Is what a party saw uniform, and the same whatever the secret is?

A view is a list of named fields: the shares a party was given, the masks it drew and
the integers it received. Every field is tested alone: shares and masks must be uniform
as well as messages. The sum and the difference of any two fields of one size of which
one is not a mask are tested too: two messages hidden by one mask are uniform each, but
not their difference. The same statistic compares the views of two different secrets
with each other.

This looks at real masks on real links. It sees what concerns some hundredths of the
elements, in fields of one size; ``test_rank`` and ``test_redrawn`` see the rest.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
from scipy import stats

View = dict[str, tuple[int, np.ndarray]]

REFUSE_BELOW = 1e-10
"""Tens of thousands of statistics are computed in one run of the suite."""


def fingerprints(view: View) -> Iterator[tuple[str, np.ndarray]]:
    """Named histograms, each of which is flat if the view reveals nothing."""
    for name, (width, values) in view.items():
        yield name + " low", _histogram(values, min(width, 8))
        yield name + " high", _histogram(_top(values, width), min(width, 8))
    for name, other in combinations(view, 2):
        (width, values), (other_width, other_values) = view[name], view[other]
        masks_only = name.startswith("drew") and other.startswith("drew")
        if masks_only or other_values.size != values.size:
            continue
        shared = min(width, other_width, 8)
        a, b = (v.astype(np.uint64) for v in (values, other_values))
        yield f"{name} + {other}", _histogram(a + b, shared)
        yield f"{name} - {other}", _histogram(a - b, shared)
        tops = (_top(values, width), _top(other_values, other_width))
        mixed = tops[0].astype(np.uint64) - tops[1].astype(np.uint64)
        yield f"tops of {name} - {other}", _histogram(mixed, shared)


def leaks(view: View, other_secret: View) -> list[str]:
    """The statistics that are not flat, or not the same for the other secret."""
    found = []
    pairs = zip(fingerprints(view), fingerprints(other_secret), strict=True)
    for (name, counts), (other_name, others) in pairs:
        assert name == other_name
        for label, histogram in (("", counts), (" (other secret)", others)):
            if not is_uniform(histogram):
                found.append(f"{name}{label} is not uniform")
        if not are_alike(counts, others):
            found.append(f"{name} depends on the secret")
    return found


def is_uniform(counts: np.ndarray) -> bool:
    """Whether all entries are as often, by Pearson's chi-squared test."""
    expected = counts.sum() / counts.size
    return bool(((counts - expected) ** 2).sum() / expected <= _most(counts.size - 1))


def are_alike(counts: np.ndarray, others: np.ndarray) -> bool:
    """Whether two histograms are of one distribution, by the same test."""
    both = np.stack([counts, others])
    both = both[:, both.any(0)]
    expected = both.sum(1, keepdims=True) * (both.sum(0) / both.sum())
    statistic = ((both - expected) ** 2 / expected).sum()
    return bool(statistic <= _most(max(1, both.shape[1] - 1)))


@cache
def _most(freedoms: int) -> float:
    return float(stats.chi2.isf(REFUSE_BELOW, freedoms))


def _top(values: np.ndarray, width: int) -> np.ndarray:
    return values >> values.dtype.type(max(0, width - 8))


def _histogram(values: np.ndarray, bits: int) -> np.ndarray:
    """Counts of the low bits, of fewer bits where there are few values."""
    bits = max(1, min(bits, (values.size // 16).bit_length() - 1))
    low = values.astype(np.uint64) & np.uint64((1 << bits) - 1)
    return np.bincount(low.astype(np.int64), minlength=1 << bits)
