"""Every bit that a party receives is hidden by a mask bit of its own.

What a party receives is a function of the masks that it does not know. Each bit of
those masks is flipped in turn, and the received bits that change are a row of a matrix
over F2. If every message has a mask and no mask serves two messages, the matrix has as
many independent rows as there are received bits: full rank.

Where messages are affine in the unknown masks the test is exact: full rank means that
they are uniform whatever the secret is. Sums modulo 2^k carry, and products of masks
are not affine; there it is a strong heuristic. A rank is never larger than the number
of mask bits, so one mask for two messages is found for certain if each is all that
hides them.

The keys of point functions are pseudorandom, not affine. Their roots are taken as given
and their corrections as uniform, as their own argument allows (``sharing.points``); all
the rest is tested.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Literal

import numpy as np
import pytest

from ditto.fixedpoint import FxpType, Ring, Words
from ditto.protocols import Grid, memory_channels, multiply, recast, reveal_to_client
from ditto.protocols.blocks import VERDICT_BITS, Rounds, summed_conjunctions
from ditto.protocols.coarse_max import coarse_max
from ditto.protocols.exponential import Exponential
from ditto.protocols.grid_function import compute_on_grid
from ditto.protocols.multiply import multiply_task
from ditto.protocols.parabolas import Function, TableFunction
from ditto.protocols.party import Exchange, Expected, Field, Pair, Party, Role, Steps
from ditto.protocols.piecewise_quadratic import Pieces, PiecewiseQuadratic
from ditto.protocols.range_word import reveal_range_word
from ditto.protocols.recast import recast_task
from ditto.protocols.registry import PROTOCOLS, Form, Protocol
from ditto.protocols.table_function import table_function
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import RANKS, Rank, Shared, Stream, deal, derive_key
from ditto.sharing.payloads import LAST_WORDS, payload_levels
from ditto.sharing.point_trees import Corrections

from .scripted import Name, ScriptedParty, knows

Run = Callable[..., object]
Operands = Sequence[Sequence[object]]
"""What each party passes to the protocol."""
Flip = tuple[Name, int, int]
"""A mask, an element of it and a bit of that."""
MOST_BITS = 1800
"""Rows of the registry that send more are tested in a smaller size, below."""
SUBSETS = 8
"""Of a row, in a coarse maximum: the AND tree then has two levels."""


# Runs in which one bit of one mask is flipped


class Script:
    """The masks of a run, the same in every run but for one bit."""

    def __init__(self) -> None:
        self.drawn: dict[Name, tuple[int, Words]] = {}
        """Bits of an element, and the elements."""

    def draw(self, flip: Flip | None, name: Name, count: int, ring: Ring) -> Words:
        if name not in self.drawn:
            key = derive_key(b"masks", session=b"", label=repr(name))
            self.drawn[name] = ring.bits, Stream(key).open(0).draw("", count, ring)
        bits, values = self.drawn[name]
        assert (bits, values.size) == (ring.bits, count), f"{name} is two masks"
        values = values.copy()
        if flip is not None and flip[0] == name:
            values[flip[1]] ^= values.dtype.type(1 << flip[2])
        return values

    def flips(self) -> Iterator[Flip]:
        """Of every mask but the roots of point functions, which are taken as given."""
        for name, (bits, values) in self.drawn.items():
            if name[2].endswith("roots"):
                continue
            for element in range(values.size):
                for bit in range(bits):
                    yield name, element, bit


class Playing(threading.local):
    """Who plays in this thread, for what has no role at hand."""

    party: ScriptedParty
    draw: Callable[[Name, int, Ring], Words]
    calls: int


PLAYING = Playing()
Seen = tuple[int, int, object]
"""Received bits as a number, how many they are, and the result."""


def play(
    run: Run, operands: Operands, script: Script, flips: Sequence[Flip | None]
) -> list[list[Seen]]:
    """What each party sees, in a run for each flip. They do not wait in between."""
    channels = memory_channels(timeout=20)

    def work(rank: Rank) -> list[Seen]:
        seen = []
        for flip in flips:
            PLAYING.draw = partial(script.draw, flip)
            PLAYING.party = ScriptedParty(channels[rank], PLAYING.draw)
            PLAYING.calls = 0
            result = run(PLAYING.party, *operands[rank])
            seen.append((*number(PLAYING.party.received), result))
        return seen

    return raise_first(run_together([partial(work, rank) for rank in RANKS]))


def number(fields: Iterable[tuple[int, Words]]) -> tuple[int, int]:
    """All bits of some fields as one number, and how many they are."""
    total, size = 0, 0
    for width, values in fields:
        places = np.arange(width, dtype=np.uint64)
        bits = values.astype(np.uint64).reshape(-1, 1) >> places & np.uint64(1)
        packed = np.packbits(bits.astype(np.uint8), bitorder="little")
        total |= int.from_bytes(packed.tobytes(), "little") << size
        size += bits.size
    return total, size


def rank_of(rows: Iterable[int]) -> int:
    """Over F2, of rows that are numbers."""
    basis: dict[int, int] = {}
    for row in rows:
        rest = row
        while rest:
            top = rest.bit_length()
            if top not in basis:
                basis[top] = rest
                break
            rest ^= basis[top]
    return len(basis)


def flipped(run: Run, operands: Operands) -> tuple[list[Flip], list[list[Seen]]]:
    """All flips there are, and what is seen in the run without and in those with."""
    script = Script()
    play(run, operands, script, [None])  # to learn which masks there are
    flips = list(script.flips())
    return flips, play(run, operands, script, [None, *flips])


def unhidden(run: Run, operands: Operands) -> dict[str, int]:
    """For each party, how many received bits are not hidden by a mask of their own."""
    flips, seen = flipped(run, operands)
    missing = {}
    for rank in RANKS:
        (start, size, _), *others = seen[rank]
        assert all(other[1] == size for other in others)
        full = rank_of(
            start ^ other[0]
            for flip, other in zip(flips, others, strict=True)
            if not knows(rank, flip[0])
        )
        if full < size:
            missing[rank.name] = size - full
    return missing


# Cases


def fxp(bits: int, frac: int) -> FxpType:
    return FxpType(bits=bits, frac=frac)


def shares(kind: FxpType, *shape: int) -> list[Shared]:
    rng = np.random.default_rng(5)
    limit = kind.limit
    integers = rng.integers(-limit + 1, limit, shape)
    return list(deal(kind.ring.reduce(integers), kind))


def small_shapes(row: Protocol) -> list[tuple[int, ...]]:
    """The shapes of a row, cut down to matrices of two by two."""
    return [
        (1,) * (len(s) - 2) + tuple(min(n, 2) for n in s[-2:]) for s in row.shapes(1)
    ]


def of_row(row: Protocol) -> tuple[Run, Operands]:
    rng = np.random.default_rng(3)
    integers = [
        rng.integers(*row.domain, shape, endpoint=True) for shape in small_shapes(row)
    ]
    return row.run, [row.take(arrays) for arrays in row.deal(integers)]


def small_max(rounds: Rounds) -> tuple[Run, Operands]:
    kind = fxp(10, 4)
    grid = Grid(kind, -50, 60, 5)
    x = shares(kind, 2, 3)
    return lambda p, x: coarse_max(p, x, grid, rounds, checked=True), [[s] for s in x]


def small_conjunction(rounds: Rounds) -> tuple[Run, Operands]:
    """By itself: within a maximum its factors are masks too, which blurs the rank."""
    rng = np.random.default_rng(7)
    known = [rng.integers(0, 2, (2, 3, 2), np.uint8) for _ in range(2)]
    of_p1, of_p0_p2 = known

    def run(party: Party, bits: Words) -> None:
        party.run(
            lambda role: summed_conjunctions(role, bits, Ring(5), rounds), rotation=0
        )

    return run, [[of_p0_p2], [of_p1], [of_p0_p2]]


def small_exponential(rounds: Rounds) -> tuple[Run, Operands]:
    kind = fxp(10, 1)
    function = Exponential(Grid(kind, -40, 2, 3), fxp(10, 3), 4, 2)
    assert function.grid.far_cut is not None
    x = shares(kind, 2)
    return lambda p, x: compute_on_grid(p, x, function, rounds, checked=True), [
        [s] for s in x
    ]


def small_pieces(rounds: Rounds) -> tuple[Run, Operands]:
    kind = fxp(14, 4)
    pieces = Pieces(-1, (16, 0, -48), (0, 2, 4), (0, 2, 0), 6, 3, 3)
    function = PiecewiseQuadratic(Grid(kind, -48, 48, 4), fxp(12, 3), pieces)
    assert function.grid.far_cut is not None
    assert function.conversion.unseen
    x = shares(kind, 2)
    return lambda p, x: compute_on_grid(p, x, function, rounds, checked=True), [
        [s] for s in x
    ]


def small_table(function: Function, widths: Literal[1, 2]) -> tuple[Run, Operands]:
    source = fxp(32, 16)
    table = TableFunction(function, source, fxp(32, 20), 65536, 90112, widths=widths)
    assert {scale.cells for scale in table.scales} == {8}
    x = deal(source.ring.reduce(np.full(1, 80000)), source)
    return lambda p, x: table_function(p, x, table, checked=True), [[s] for s in x]


def in_parts(run: Run, *kinds: FxpType) -> tuple[Run, Operands]:
    """On tensors that are cut in three, with all rotations in the same messages."""
    operands = [shares(kind, 17) for kind in kinds]
    return run, list(zip(*operands, strict=True))


def two_steps(party: Party, x: Shared) -> None:
    """The same again: with other masks, though the same names."""
    for _ in range(2):
        recast(party, x, fxp(8, 2), checked=True)


def two_tasks(party: Party, x: Shared) -> None:
    """The same twice in the same rounds, and another protocol beside them."""
    party.run_tasks(
        [
            recast_task(x, fxp(8, 2), checked=True),
            recast_task(x, fxp(8, 2), checked=True),
            multiply_task(x, x, fxp(8, 3), checked=True),
        ]
    )


SECRET = {row.key: row for row in PROTOCOLS if row.gives in (Form.SHARES, Form.BITS)}
COSTS = {key: row.cost(*small_shapes(row)).bits for key, row in SECRET.items()}
CASES: dict[str, Callable[[], tuple[Run, Operands]]] = {
    **{
        key: partial(of_row, row)
        for key, row in SECRET.items()
        if 0 < COSTS[key] <= MOST_BITS
    },
    "coarse max in two": partial(small_max, 2),
    "coarse max in one": partial(small_max, 1),
    "conjunction in two": partial(small_conjunction, 2),
    "conjunction in one": partial(small_conjunction, 1),
    "exponential in two": partial(small_exponential, 2),
    "exponential in one": partial(small_exponential, 1),
    "piecewise quadratic in two": partial(small_pieces, 2),
    "piecewise quadratic in one": partial(small_pieces, 1),
    "reciprocal": partial(small_table, "reciprocal", 1),
    "rsqrt": partial(small_table, "rsqrt", 1),
    "reciprocal of two widths": partial(small_table, "reciprocal", 2),
    **{
        f"{name} in parts, rounds={rounds}": partial(in_parts, run, *kinds)
        for rounds in (1, 2, 3)
        for name, run, kinds in (
            (
                "recast",
                lambda p, x, rounds=rounds: recast(
                    p, x, fxp(6, 1), rounds=rounds, checked=True
                ),
                (fxp(5, 2),),
            ),
            (
                "multiply",
                lambda p, x, y, rounds=rounds: multiply(
                    p, x, y, fxp(4, 1), rounds, checked=True
                ),
                (fxp(4, 1), fxp(4, 1)),
            ),
        )
    },
    "two steps": lambda: (two_steps, [[s] for s in shares(fxp(8, 4), 2)]),
    "two tasks": lambda: (two_tasks, [[s] for s in shares(fxp(8, 4), 2)]),
}


def module(name: str) -> ModuleType:
    """A module whose name in its package is that of its protocol."""
    return import_module(f"ditto.protocols.{name}")


@pytest.fixture(autouse=True)
def _few_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("coarse_max"), "SUBSETS", SUBSETS)


@pytest.fixture(autouse=True)
def _uniform_corrections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corrections of point functions are masks of who deals them, and nothing else.

    What P0 and P2 expand from them stays with them: zeros serve as well.
    """

    def drawn(indices: Words, *_: object, depth: int) -> Corrections:
        count, levels = indices.size, payload_levels(depth)
        PLAYING.calls += 1
        whose = f"P{PLAYING.party.rank:d}"

        def take(purpose: str, size: int, ring: Ring) -> Words:
            name = whose, PLAYING.calls, f"corrected {purpose}"
            return PLAYING.draw(name, size, ring)

        return Corrections(
            take("seeds", 2 * count * levels, Ring(64)).reshape(count, levels, 2),
            take("rights", count * levels, Ring(1)).reshape(count, levels),
            take("last", LAST_WORDS * count, Ring(64)).reshape(count, LAST_WORDS),
        )

    def rows(roots: Words, *others: Words, depth: int, side: int) -> Words:
        table = others[2]
        assert side in (0, 1)
        assert table.shape[1] <= depth
        return np.zeros((len(roots), len(table)), np.uint64)

    monkeypatch.setattr(module("table_function"), "correct_payloads", drawn)
    monkeypatch.setattr(module("table_function"), "products_at_payloads", rows)


@pytest.mark.parametrize("case", CASES)
def test_all_received_bits_are_hidden(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "in parts" in case:
        monkeypatch.setattr(module("party"), "SPLIT_FROM", 1)
    assert unhidden(*CASES[case]()) == {}


def test_every_protocol_that_sends_has_a_case() -> None:
    names = {row.name for key, row in SECRET.items() if COSTS[key]}
    assert {n for n in names if not any(c.startswith(n) for c in CASES)} == set()
    large = {row.name for key, row in SECRET.items() if COSTS[key] > MOST_BITS}
    assert large == {
        "coarse max",
        "piecewise quadratic",
        "reciprocal",
        "rsqrt",
    }


# What is opened


OPENED = {row.key: row for row in PROTOCOLS if row.gives == Form.OPENED}


@pytest.mark.parametrize("key", OPENED)
def test_who_is_shown_a_value_gets_its_missing_share_and_nothing_else(key: str) -> None:
    row = OPENED[key]
    run, operands = of_row(row)
    seen = play(run, operands, Script(), [None])
    readers = sum(opened is not None for ((*_, opened),) in seen)
    assert readers == {"one party": 1, "all": 3}[row.parameters["to"]]
    for rank in RANKS:
        ((received, size, opened),) = seen[rank]
        (x,) = operands[rank]
        assert isinstance(x, Shared)
        if opened is None:
            assert size == 0
        else:
            assert isinstance(opened, np.ndarray)
            missing = x.ring.reduce(opened - x.first - x.second)
            assert (received, size) == number([(x.ring.bits, missing)])


def send_answer(party: Party, x: Shared) -> Words:
    return reveal_to_client(party, x).summand


def send_verdict(party: Party, _: Shared) -> Words:
    party.range_word = 5 + party.rank
    return reveal_range_word(party)


@pytest.mark.parametrize(
    ("run", "bits"), [(send_answer, 3 * 12), (send_verdict, VERDICT_BITS)]
)
def test_a_client_is_sent_a_fresh_sharing(run: Run, bits: int) -> None:
    """Two of three summands are uniform: the third is what they hide, minus them."""
    _, seen = flipped(run, [[s] for s in shares(fxp(12, 4), 3)])
    for pair in ((0, 1), (1, 2), (2, 0)):
        sent = []
        for two in zip(*(seen[rank] for rank in pair), strict=True):
            words = [np.asarray(summand) for *_, summand in two]
            sent.append(number([(bits // each.size, each) for each in words]))
        (start, size), *others = sent
        assert size == 2 * bits
        assert rank_of(start ^ other for other, _ in others) == size


# What the test finds


def symmetric(steps: Callable[[Role, Pair], Steps[Pair]]) -> Run:
    def run(party: Party, x: Shared) -> None:
        party.run(lambda role: steps(role, (x.first, x.second)), rotation=0)

    return run


RING = Ring(8)


def exchange(role: Role, messages: Sequence[Words]) -> Steps[Pair]:
    """Each role sends some words to the one before it."""
    inbox = yield Exchange(
        send={role.rank.previous: [Field(words, 8) for words in messages]},
        receive={role.rank.next: [Expected(words.size, 8) for words in messages]},
    )
    first, *_ = inbox[role.rank.next]
    return messages[0], first


def hidden(role: Role, z: Words, purpose: str = "g") -> Words:
    masks = role.next.draw(purpose, z.size, RING)
    return RING.reduce(z + masks)


def well_hidden(role: Role, pair: Pair) -> Steps[Pair]:
    first, second = pair
    return exchange(role, [hidden(role, first, "a"), hidden(role, second, "b")])


def one_mask_for_two_messages(role: Role, pair: Pair) -> Steps[Pair]:
    first, second = pair
    mask = role.next.draw("a", first.size, RING)
    return exchange(role, [RING.reduce(share + mask) for share in (first, second)])


def one_mask_for_all_elements(role: Role, pair: Pair) -> Steps[Pair]:
    mask = role.next.draw("a", 1, RING)
    return exchange(role, [RING.reduce(pair[0] + mask)])


def an_element_without_a_mask(role: Role, pair: Pair) -> Steps[Pair]:
    mask = role.next.draw("a", pair[0].size, RING)
    mask[-1] = 0
    return exchange(role, [RING.reduce(pair[0] + mask)])


def a_mask_that_the_receiver_knows(role: Role, pair: Pair) -> Steps[Pair]:
    mask = role.previous.draw("a", pair[0].size, RING)
    return exchange(role, [RING.reduce(pair[0] + mask)])


def a_mask_of_too_few_bits(role: Role, pair: Pair) -> Steps[Pair]:
    mask = role.next.draw("a", pair[0].size, Ring(7))
    return exchange(role, [RING.reduce(pair[0] + mask)])


@pytest.mark.parametrize(
    ("steps", "bits"),
    [
        (well_hidden, 0),
        (one_mask_for_two_messages, 3 * 8),
        (one_mask_for_all_elements, 2 * 8),
        (an_element_without_a_mask, 8),
        (a_mask_that_the_receiver_knows, 3 * 8),
        (a_mask_of_too_few_bits, 3),
    ],
)
def test_leaks_are_found(steps: Callable[[Role, Pair], Steps[Pair]], bits: int) -> None:
    found = unhidden(symmetric(steps), [[s] for s in shares(fxp(8, 0), 3)])
    assert found == ({rank.name: bits for rank in RANKS} if bits else {})
