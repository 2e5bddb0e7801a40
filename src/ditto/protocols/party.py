"""A party of a session: its channel, its masks, and how it runs protocols.

A protocol is written once, for three roles, as a generator. Each ``yield`` is one
exchange: what the role sends and what it will receive in that round. The runner maps
roles to parties and drives any number of instances in lockstep, with one message per
peer and round for all of them. Three things follow:

- roles rotate: an instance with rotation r is played by party (role + r) mod 3, which
  is the same protocol because replicated shares are symmetric. A large tensor is cut
  in three parts with the three rotations, so the links carry even loads within a step;
  small ones take the three rotations in turn, so they are even over time;
- independent protocols run together in the rounds of the longest one;
- a protocol file holds no network code.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from ditto.fixedpoint import Words
from ditto.protocols.channel import Channel
from ditto.protocols.ledger import Claim, Ledger, WrapClaim
from ditto.sharing import Masks, Rank, Stream, pack, packed_size, unpack
from ditto.sharing.packing import Bytes

T = TypeVar("T")

SPLIT_FROM = 1 << 13
"""Elements from which a tensor is cut in three parts with rotated roles."""


@dataclass(frozen=True)
class Field:
    """Integers to send, ``width`` bits each."""

    values: Words
    width: int


@dataclass(frozen=True)
class Expected:
    """Integers to receive, ``width`` bits each."""

    count: int
    width: int


@dataclass(frozen=True)
class Exchange:
    """What one role sends and receives in one round. Keys are roles."""

    send: dict[Rank, list[Field]] = field(default_factory=dict)
    receive: dict[Rank, list[Expected]] = field(default_factory=dict)


Inbox = dict[Rank, list[Words]]
Steps = Generator[Exchange, Inbox, T]


@dataclass(frozen=True)
class Role:
    """One party's part in one instance of a protocol.

    ``next`` holds the masks shared with the role after this one, ``previous`` those
    shared with the role before it, ``own`` those nobody else knows.
    """

    rank: Rank
    next: Masks
    previous: Masks
    own: Masks
    note: Callable[[int], None]
    """Adds a word of the range check to the party's (``blocks.range_check``)."""
    record: Callable[[Claim | WrapClaim], None] | None = None
    """Notes what is to be proved (``ledger``), if the run is audited."""

    def masks_with(self, other: Rank) -> Masks:
        """The masks this role shares with another role."""
        return self.next if other == self.rank.next else self.previous

    def within(self, part: str) -> "Role":
        """The same role in a part of the instance, whose masks have their own names."""
        return replace(
            self,
            next=self.next.within(part),
            previous=self.previous.within(part),
            own=self.own.within(part),
        )


Instance = Callable[[Role], Steps[T]]


def advance(
    running: dict[int, Steps[T]],
    inboxes: Mapping[int, Inbox | None],
    results: dict[int, T],
) -> dict[int, Exchange]:
    """The next exchange of all that run; what has ended moves on to ``results``.

    Each is handed its inbox, or None at its start.
    """
    exchanges: dict[int, Exchange] = {}
    for i, steps in list(running.items()):
        inbox = inboxes[i]
        try:
            exchanges[i] = next(steps) if inbox is None else steps.send(inbox)
        except StopIteration as ended:
            results[i] = ended.value
            del running[i]
    return exchanges


class Party:
    """One of the three parties of one session."""

    def __init__(
        self,
        channel: Channel,
        *,
        with_next: Stream,
        with_previous: Stream,
        with_both: Stream,
    ) -> None:
        self.channel = channel
        self.rank = channel.rank
        self._next = with_next
        self._previous = with_previous
        self._both = with_both
        self._own = Stream.private()
        self._step = 0
        self._rotation = 0
        self._sent: list[int] = []
        self.sent: list[int] = []
        """Payload bytes of the tasks that ran together last."""
        self.range_word = 0
        """This party's part of the range check since it was last set to zero."""
        self.ledger: Ledger | None = None
        """Where products are noted, if they are to be proved."""

    def for_run(self, context: bytes) -> "Party":
        """This party with masks for one run, bound to what the run is.

        All three call it with one context, or they have no masks in common. It takes up
        a step of the session, so that each run of a session has masks of its own.
        """
        self.channel.on_use()
        step = self._next_step()
        return Party(
            self.channel,
            with_next=self._next.derive(step, context),
            with_previous=self._previous.derive(step, context),
            with_both=self._both.derive(step, context),
        )

    def masks_of_pairs(self) -> dict[Rank, Masks]:
        """Masks of a step of their own that this party shares with each of the two."""
        self.channel.on_use()
        step = self._next_step()
        return {
            self.rank.next: self._next.open(step),
            self.rank.previous: self._previous.open(step),
        }

    def masks_of_all(self) -> Masks:
        """Masks of a step of their own that all three know, and nobody else."""
        self.channel.on_use()
        return self._both.open(self._next_step())

    def _next_step(self) -> int:
        step = self._step
        self._step += 1
        return step

    def run(self, instance: Instance[T], *, rotation: int | None = None) -> T:
        """One instance. Its roles rotate from one to the next, unless ``rotation`` is
        given: symmetric protocols, in which all roles send alike, give 0."""
        if rotation is None:
            rotation = self._next_rotation()
        return self.run_together([(instance, rotation)])[0]

    def _next_rotation(self) -> int:
        rotation = self._rotation
        self._rotation = (rotation + 1) % 3
        return rotation

    def run_task(self, task: "Task[T]") -> T:
        """One task."""
        return self.run_tasks([task])[0]

    def run_tasks(self, tasks: "Sequence[Task[T]]") -> list[T]:
        """Several tasks, in lockstep. ``sent`` then says what each of them sent."""
        instances = [
            (instance, self._next_rotation() if rotation is None else rotation)
            for task in tasks
            for instance, rotation in task.instances
        ]
        pairs = iter(self.run_together(instances))
        sent = iter(self._sent)
        self.sent = [sum(next(sent) for _ in task.instances) for task in tasks]
        return [
            task.finish(_joined([next(pairs) for _ in task.instances]))
            for task in tasks
        ]

    def run_together(self, instances: Sequence[tuple[Instance[T], int]]) -> list[T]:
        """Several instances with their rotations, in lockstep."""
        self.channel.on_use()  # it draws masks, even if nothing is sent
        tag = self._step
        running: dict[int, Steps[T]] = {}
        rotations = [rotation for _, rotation in instances]
        for i, (instance, rotation) in enumerate(instances):
            running[i] = instance(self._role(rotation))
        results: dict[int, T] = {}
        self._sent = [0] * len(instances)
        inboxes: dict[int, Inbox | None] = dict.fromkeys(running)
        while running:
            exchanges = advance(running, inboxes, results)
            inboxes = self._exchange(exchanges, rotations, tag)
        return [results[i] for i in range(len(instances))]

    def _role(self, rotation: int) -> Role:
        step = self._next_step()
        return Role(
            self.rank.rotated(-rotation),
            self._next.open(step),
            self._previous.open(step),
            self._own.open(step),
            self._note,
            None if self.ledger is None else partial(self.ledger.add, step),
        )

    def _note(self, word: int) -> None:
        self.range_word ^= word

    def _exchange(
        self, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        started = time.perf_counter()
        outgoing: dict[Rank, list[Bytes]] = {}
        incoming: dict[Rank, list[tuple[int, Rank, Expected]]] = {}
        for i, exchange in exchanges.items():
            rotation = rotations[i]
            for role, fields in exchange.send.items():
                parts = [pack(item.values, item.width) for item in fields]
                self._sent[i] += sum(part.size for part in parts)
                outgoing.setdefault(role.rotated(rotation), []).extend(parts)
            for role, items in exchange.receive.items():
                expected = [(i, role, item) for item in items]
                incoming.setdefault(role.rotated(rotation), []).extend(expected)
        self.channel.copied += time.perf_counter() - started
        for peer, parts in outgoing.items():
            self.channel.send(peer, parts, tag=tag)
        inboxes: dict[int, Inbox] = {i: {} for i in exchanges}
        for peer, expected in incoming.items():
            sizes = [packed_size(item.count, item.width) for *_, item in expected]
            message = self.channel.receive(peer, size=sum(sizes), tag=tag)
            started, cursor = time.perf_counter(), 0
            for (i, role, item), size in zip(expected, sizes, strict=True):
                values = unpack(message[cursor : cursor + size], item.count, item.width)
                inboxes[i].setdefault(role, []).append(values)
                cursor += size
            self.channel.copied += time.perf_counter() - started
        return dict(inboxes)


def part_sizes(count: int, weight: int = 1) -> list[int]:
    """The parts a tensor of ``count`` elements, of some weight each, is worked on in.

    Parts but the last are multiples of eight, so that packing pads only once.
    """
    if count * weight < SPLIT_FROM or count <= 16:
        return [count]
    third = -(-count // 24) * 8
    return [third, third, count - 2 * third]


Pair = tuple[Words, Words]
"""The two flat shares a role holds."""
PairSteps = Steps[Pair]
PairInstance = Instance[Pair]


@dataclass(frozen=True)
class Task(Generic[T]):
    """A protocol that is ready to run: its instances, and what becomes of their shares.

    Tasks that do not wait for each other run together, in the rounds of the longest.
    """

    instances: list[tuple[PairInstance, int | None]]
    """Each with its rotation, or None if the party may choose."""
    finish: Callable[[Pair], T]

    @classmethod
    def done(cls, result: T) -> "Task[T]":
        """Nothing is left to do."""
        return cls([], lambda _: result)


def in_parts(
    count: int,
    instance_of: Callable[[slice], PairInstance],
    finish: Callable[[Pair], T],
    *,
    weight: int = 1,
) -> Task[T]:
    """A protocol on flat tensors of ``count`` elements, in parts when it is large."""
    sizes = part_sizes(count, weight)
    if len(sizes) == 1:
        return Task([(instance_of(slice(0, count)), None)], finish)
    ends = np.cumsum(sizes)
    slices = [slice(int(e) - n, int(e)) for e, n in zip(ends, sizes, strict=True)]
    return Task([(instance_of(s), i) for i, s in enumerate(slices)], finish)


def shares_in_parts(
    shares: Pair,
    steps: Callable[[Role, Pair], PairSteps],
    finish: Callable[[Pair], T],
    *,
    weight: int = 1,
) -> Task[T]:
    """As ``in_parts``, of a protocol that takes parts of both shares of a tensor."""
    first, second = shares

    def instance_of(part: slice) -> PairInstance:
        return lambda role: steps(role, (first[part], second[part]))

    return in_parts(len(first), instance_of, finish, weight=weight)


def _joined(pairs: list[Pair]) -> Pair:
    if len(pairs) == 1:
        return pairs[0]
    if not pairs:
        nothing: Words = np.empty(0, np.uint8)
        return nothing, nothing
    firsts, seconds = zip(*pairs, strict=True)
    return np.concatenate(firsts), np.concatenate(seconds)
