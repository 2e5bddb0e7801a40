"""Every element of a large tensor has a mask, and a mask of its own.

The same secrets in the same shares are run again and again: the masks that a party
knows stay, all others are drawn anew. So whatever it receives must change, and no two
elements must change alike: an element that stays has no mask, and two that always
change by the same have one mask between them. Both are found at a single element among
thousands, in any field and across fields of different sizes, in tensors that are cut in
parts; ``test_rank`` proves more, of small tensors.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import numpy as np
import pytest

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import Party, memory_channels
from ditto.protocols.party import Exchange, Expected, Field, Role, Steps
from ditto.protocols.registry import PROTOCOLS, Form, Protocol
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Shared, Stream, deal, derive_key

from .scripted import Name, ScriptedParty, knows

RUNS = 40
"""An element of one bit stays the same with a chance of 2^-39."""
MOST_BITS = 8
"""Bits of an element that are compared, at most."""
SPLIT_FROM = 256
"""Elements from which a tensor is cut in parts here."""
Run = Callable[..., object]
Received = list[tuple[int, Words]]


def masks(observer: Rank, number: int, name: Name, count: int, ring: Ring) -> Words:
    """Of one run: the observer's own are those of every run."""
    drawn_anew = b"" if knows(observer, name) else b"%d" % number
    key = derive_key(b"masks", session=drawn_anew, label=repr(name))
    return Stream(key).open(0).draw("", count, ring)


def views(run: Run, operands: list[list[object]], observer: Rank) -> list[Received]:
    """What the observer receives in each of the runs."""
    channels = memory_channels(timeout=60)

    def work(rank: Rank) -> list[Received]:
        seen = []
        for number in range(RUNS):
            party = ScriptedParty(channels[rank], partial(masks, observer, number))
            run(party, *operands[rank])
            seen.append(party.received)
        return seen

    return raise_first(run_together([partial(work, rank) for rank in RANKS]))[observer]


def fields(seen: list[Received]) -> Iterator[tuple[int, np.ndarray]]:
    """The fields of all runs: their width, and (elements, runs)."""
    for same in zip(*seen, strict=True):
        width = same[0][0]
        yield width, np.stack([values for _, values in same], axis=1).astype(np.uint64)


def unmasked(seen: list[Received]) -> list[str]:
    """Elements that are the same in all runs."""
    found = []
    for k, (_, values) in enumerate(fields(seen)):
        stays = (values == values[:, :1]).all(axis=1)
        found += [f"field {k}, element {j} has no mask" for j in np.flatnonzero(stays)]
    return found


def alike(seen: list[Received]) -> list[str]:
    """Pairs of elements whose sum, difference or XOR is the same in all runs."""
    groups: dict[int, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for k, (width, values) in enumerate(fields(seen)):
        if width > 1:  # runs are too few to tell single bits apart
            bits = min(width, MOST_BITS)
            low = values & np.uint64((1 << bits) - 1)
            groups[bits] += [(f"{k}.{j}", row) for j, row in enumerate(low)]
    found = []
    for bits, rows in groups.items():
        names = [name for name, _ in rows]
        values = np.stack([row for _, row in rows])
        mask = np.uint64((1 << bits) - 1)
        change = (values - values[:, :1]) & mask
        changes = {
            "difference": (change, change),
            "sum": (change, -change & mask),
            "XOR": (values ^ values[:, :1],) * 2,
        }
        for kind, (one, other) in changes.items():
            first = {row.tobytes(): j for j, row in reversed(list(enumerate(one)))}
            for j, row in enumerate(other):
                i = first.get(row.tobytes(), j)
                if i != j:
                    found.append(f"the {kind} of {names[i]} and {names[j]} stays")
    return found


def leaks(run: Run, operands: list[list[object]]) -> list[str]:
    return [
        f"{observer.name}: {leak}"
        for observer in RANKS
        for seen in [views(run, operands, observer)]
        for leak in (*unmasked(seen), *alike(seen))
    ]


ROWS = [
    pytest.param(row, id=row.key)
    for row in PROTOCOLS
    if row.cost(*row.shapes(1)).bits and row.gives in (Form.SHARES, Form.BITS)
]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    party = import_module("ditto.protocols.party")
    monkeypatch.setattr(party, "SPLIT_FROM", SPLIT_FROM)


@pytest.mark.parametrize("row", ROWS)
def test_every_element_has_a_mask_of_its_own(row: Protocol) -> None:
    rows = 200 if row.work == 1 else 60 if row.work == 16 else 18
    rng = np.random.default_rng(4)
    integers = [
        rng.integers(*row.domain, shape, endpoint=True) for shape in row.shapes(rows)
    ]
    operands = [row.take(arrays) for arrays in row.deal(integers)]
    assert leaks(row.run, operands) == []


# What the test finds

COUNT = 1000
RING = Ring(16)


def message(role: Role, x: Words, mask: Words) -> Steps[None]:
    """From each role to the one before it, which does not know the mask."""
    yield Exchange(
        send={role.rank.previous: [Field(RING.reduce(x + mask), 16)]},
        receive={role.rank.next: [Expected(x.size, 16)]},
    )


def protocol(spoil: Callable[[Words], None]) -> Run:
    def run(party: Party, x: Shared) -> None:
        def instance(role: Role) -> Steps[None]:
            mask = role.next.draw("g", COUNT, RING)
            spoil(mask)
            return message(role, x.first, mask)

        party.run(instance, rotation=0)

    return run


def nothing(_: Words) -> None:
    """All is well."""


def one_is_zero(mask: Words) -> None:
    mask[700] = 0


def one_is_anothers(mask: Words) -> None:
    mask[900] = mask[3]


def one_is_minus_anothers(mask: Words) -> None:
    mask[900:901] = -mask[3:4]


@pytest.mark.parametrize(
    ("spoil", "leak"),
    [
        (nothing, None),
        (one_is_zero, "field 0, element 700 has no mask"),
        (one_is_anothers, "the difference of 0.3 and 0.900 stays"),
        (one_is_minus_anothers, "the sum of 0.3 and 0.900 stays"),
    ],
)
def test_a_leak_of_one_element_is_found(
    spoil: Callable[[Words], None], leak: str | None
) -> None:
    kind = FxpType(16, 0)
    x = deal(kind.ring.reduce(np.arange(COUNT)), kind)
    found = leaks(protocol(spoil), [[share] for share in x])
    if leak is None:
        assert found == []
    else:
        assert all(f"{rank.name}: {leak}" in found for rank in RANKS)
