"""What every kind of step knows of itself, and what machines give it to work with."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import PlanError
from ditto.fixedpoint import Array, FxpType
from ditto.plan import Plan, Step, StepKind, Value
from ditto.protocols import Party, Rounds
from ditto.protocols.party import Task
from ditto.sharing import Shared, SharedBits, SharedIndices

Held = Shared | SharedBits | SharedIndices | Array
"""What a party holds of a value; an array if it is public."""
Numbers = jax.Array
"""JAX arrays: the integers of a value that is shared, the numbers of a public one."""


@dataclass(frozen=True)
class Site:
    """A step at its place in a plan, with the tensors that it takes and makes."""

    plan: Plan
    index: int
    step: Step
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    audited: bool = False
    """Whether it is a step of a run that is proved: some then send more."""

    @classmethod
    def of(cls, plan: Plan, index: int, *, audited: bool = False) -> Self:
        """Step ``index`` of a plan."""
        return cls(plan, index, *plan.placed[index], audited)

    @property
    def checked(self) -> bool:
        """Whether the parties note values that leave the range of the step."""
        return self.plan.range_check

    @property
    def provable(self) -> bool:
        """Whether recasts are those of which each message can be proved."""
        return self.plan.provable

    @property
    def result(self) -> Value:
        """The first, and for all but regions the only result."""
        return self.results[0]


@dataclass(frozen=True)
class StepCost:
    """Of one step: bits of all parties together, and rounds."""

    bits: float = 0.0
    rounds: float = 0.0
    native: bool = True
    """Whether our protocols send them, whose cost is exact."""
    unknown: tuple[str, ...] = ()
    """SPU operations that the cost table does not know, and that are not counted."""


@dataclass(frozen=True)
class Place:
    """Where integers have to satisfy low <= x < high: in a step, for an ulp."""

    step: int
    low: float
    high: float
    ulp: float = 1.0
    pole: float | None = None
    hidden: float | None = None
    """Integers up to this, if they are in range, stand for what a mask hides."""

    @classmethod
    def of(cls, step: int, kind: FxpType) -> Self:
        """Where a value has to stay below its type's limit."""
        return cls(step, -kind.limit, kind.limit, kind.ulp)


@dataclass(frozen=True)
class Cells:
    """How a protocol sees that x is out of range: by the cell that x is found in.

    That is floor((x - origin) / width) + 1, or one less, modulo ``count``. Cells that
    are not ``legal`` are noted. What is not noted is wrapped around to ``start``.
    """

    origin: float
    width: float
    count: int
    legal: range
    start: float

    @classmethod
    def of_recast(cls, kind: FxpType) -> Self:
        """Quarters of the ring: three that legal values are found in, and one."""
        quarter = float(kind.limit)
        return cls(-quarter, quarter, 4, range(3), -2 * quarter)


class Runner(ABC):
    """What executes a plan at a party, as steps see it."""

    party: Party

    @abstractmethod
    def run_region(self, site: Site, operands: Sequence[Held]) -> list[Held]:
        """The results of the SPU region that a step runs."""


class Arithmetic(ABC):
    """What simulates a plan, as steps see it: it rounds, and looks at ranges."""

    differentiable = False
    """Whether gradients pass through what is rounded."""

    @abstractmethod
    def nearest(self, x: Numbers) -> Numbers:
        """Whole numbers, as encoding and tables round."""

    @abstractmethod
    def cut(self, x: Numbers, bits: int, index: int) -> Numbers:
        """Integers without their last bits, as a recast in step ``index`` rounds."""

    @abstractmethod
    def down(self, x: Numbers) -> Numbers:
        """Whole numbers, as shares that are shifted round: down."""

    @abstractmethod
    def level(self, x: Numbers, index: int) -> Numbers:
        """Whole numbers, as the levels of a coarse maximum in step ``index`` round."""

    @abstractmethod
    def within(self, x: Numbers, place: Place) -> Numbers:
        """x, without the elements that are outside."""

    @abstractmethod
    def fitted(self, x: Numbers, place: Place) -> Numbers:
        """x, which what follows is made for only in a range."""

    @abstractmethod
    def noted(self, x: Numbers, place: Place, cells: Sequence[Cells]) -> Numbers:
        """x as the parties go on with it, without the elements that they note."""

    @abstractmethod
    def watch(self, x: Numbers, place: Place) -> None:
        """Note that x was outside, where it cannot be followed further."""


class StepDefinition(StepKind, ABC):
    """All that is known of one kind of step. Its fields are its parameters."""

    @abstractmethod
    def check(self, site: Site) -> None:
        """Raise PlanError if the step breaks a rule; what passes can be executed."""

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """What it sends; ``regions`` has the cost of each of the plan's SPU regions."""
        return StepCost()

    @abstractmethod
    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """What a party then holds of the results."""

    @abstractmethod
    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """The results on plain integers, as numbers of the real type."""

    @abstractmethod
    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """How far the parties' integers may be from the simulator's, from how far
        those of the operands may be."""

    def is_proved(self, site: Site) -> bool:
        """Whether an audit proves each of its messages, or it has none."""
        return not self.interactive

    def proof_terms(self, site: Site) -> float:
        """Terms of the proof of its messages, at most: elements of the Galois ring
        after the first fold. Of an element these are two 16ths for a product, two
        ninths and two 32nds for a recast; of each of three parts rows are filled up."""
        return 3 * 6 + site.result.size / 2 if self.interactive else 0.0

    def describe(self, site: Site) -> str:
        """What it does, in a word or two."""
        return self.name

    def multiplications(self, site: Site) -> float:
        """Of integers, at one party; 0 if there are few."""
        return 0.0

    def in_rounds(self, rounds: Rounds) -> Self | None:
        """The same in as many rounds, if it leaves the choice and has such a form."""
        return None

    def renumbered(self, constants: Sequence[int], regions: Sequence[int]) -> Self:
        """The same in a plan that has kept only these constants and regions."""
        return self

    def constant_used(self) -> int | None:
        """The constant of the plan that it takes."""
        return None

    def region_used(self) -> int | None:
        """The region of the plan that it runs."""
        return None


class Batchable(StepDefinition):
    """A step that shares its rounds with others beside it."""

    interactive = True
    batchable = True

    @abstractmethod
    def task(self, site: Site, operands: Sequence[Held]) -> Task[Shared]:
        """The part of a party, as a task that runs together with others."""

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """See StepDefinition."""
        return [runner.party.run_task(self.task(site, operands))]


def real_dtype() -> np.dtype[np.floating]:
    """What integers are held in: float64 under ``jax.enable_x64``, which is exact for
    all that fits a ring of 32 bits and more, else float32, which has 24 bits."""
    return jax.dtypes.canonicalize_dtype(np.float64)


def extremes(x: Numbers) -> Numbers:
    """The least and the largest of what is not lost (NaN)."""
    lost = jnp.isnan(x)
    least = jnp.min(jnp.where(lost, jnp.inf, x), initial=jnp.inf)
    most = jnp.max(jnp.where(lost, -jnp.inf, x), initial=-jnp.inf)
    return jnp.stack([least, most])


def stacked(pairs: Sequence[Numbers]) -> Numbers:
    """Pairs as rows of one array, of none if there are none."""
    return jnp.stack(list(pairs)) if pairs else jnp.zeros((0, 2))


def definition(step: Step) -> StepDefinition:
    """All that is known of a step's kind."""
    if not isinstance(step.kind, StepDefinition):
        raise TypeError(f"{step.kind.name!r} is no kind of step that is known here.")
    return step.kind


def as_shared(held: Held) -> Shared:
    """What a checked plan says is shares of numbers."""
    if not isinstance(held, Shared):
        raise TypeError(f"The plan has shares here, got {type(held).__name__}.")
    return held


def as_indices(held: Held) -> SharedIndices:
    """What a checked plan says is shares of indices."""
    if not isinstance(held, SharedIndices):
        raise TypeError(f"The plan has indices here, got {type(held).__name__}.")
    return held


def demand(holds: bool, rule: str, got: object = None) -> None:
    """Raise PlanError unless a rule holds: what is asked for, and what was got."""
    if not holds:
        raise PlanError(f"{rule}, got {got}" if got is not None else rule)
