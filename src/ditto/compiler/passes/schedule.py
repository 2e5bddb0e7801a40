"""schedule: an order of steps in which many share their rounds.

Interactive steps have a level: more than that of every one they wait for. Those of one
level that are batchable run together, in the rounds of the longest. At first each has
the lowest level that it can have. Then a step that others do not wait for yet moves to
a later level, if all levels together take fewer rounds that way: a product that takes
three rounds beside a sum that takes one waits for the table that takes three.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ditto.plan import Plan, Step
from ditto.steps import Site, definition


def scheduled(plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """The steps of a plan, or some of them, in order: by level."""
    levels = _Levels(plan, steps)
    while levels.improve():
        pass

    def key(i: int) -> tuple[int, bool, bool]:
        kind = steps[i].kind
        batchable = kind.interactive and kind.batchable
        return levels.level[i], not kind.interactive, batchable

    return [steps[i] for i in sorted(range(len(steps)), key=key)]


@dataclass
class _Levels:
    """The levels of steps; those without messages have that of what they wait for."""

    plan: Plan
    steps: Sequence[Step]
    level: list[int] = field(init=False)
    rounds: list[int] = field(init=False)
    """Of the batchable steps; 0 of all others, which share them with none."""
    users: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        makers: dict[int, int] = {}
        self.users = [[] for _ in self.steps]
        self.level = []
        for i, step in enumerate(self.steps):
            sources = {makers[v] for v in step.inputs if v in makers}
            for source in sources:
                self.users[source].append(i)
            makers |= dict.fromkeys(step.outputs, i)
            waits = max((self.level[source] for source in sources), default=0)
            self.level.append(waits + step.kind.interactive)
        self.rounds = [self._rounds(step) for step in self.steps]

    def _rounds(self, step: Step) -> int:
        if not step.kind.batchable:
            return 0
        operands, results = (
            tuple(self.plan.values[v] for v in side)
            for side in (step.inputs, step.outputs)
        )
        site = Site(self.plan, 0, step, operands, results)
        return int(definition(step).cost(site, ()).rounds)

    def improve(self) -> bool:
        """Move steps to later levels; tells whether any moved."""
        members: dict[int, list[int]] = {}
        for i in range(len(self.steps)):
            if self.rounds[i]:
                members.setdefault(self.level[i], []).append(i)

        def longest(level: int, *, without: int = -1) -> int:
            others = (i for i in members.get(level, []) if i != without)
            return max((self.rounds[i] for i in others), default=0)

        latest = [max(self.level, default=0)] * len(self.steps)
        moved = False
        for i in range(len(self.steps) - 1, -1, -1):
            for u in self.users[i]:
                bound = self.level[u] - 1 if self._talks(u) else latest[u]
                latest[i] = min(latest[i], bound)
            if not self._talks(i):
                continue
            here = self.level[i]
            saved = longest(here) - longest(here, without=i)
            if self.rounds[i] and saved:
                for level in range(here + 1, latest[i] + 1):
                    if max(0, self.rounds[i] - longest(level)) < saved:
                        members[here].remove(i)
                        members.setdefault(level, []).append(i)
                        self.level[i], moved = level, True
                        break
        if moved:
            self._follow()
        return moved

    def _talks(self, i: int) -> bool:
        return self.steps[i].kind.interactive

    def _follow(self) -> None:
        """Steps without messages stand where what they wait for stands."""
        for i in range(len(self.steps)):
            if not self._talks(i):
                self.level[i] = 0
        for i in range(len(self.steps)):
            for u in self.users[i]:
                if not self._talks(u):
                    self.level[u] = max(self.level[u], self.level[i])
