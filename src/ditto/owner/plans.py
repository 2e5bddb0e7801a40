"""The owner's part: plans of a model for every shape that is asked for.

Plans are calibrated on sample texts, never on what a client asks. These say also how
the model is prepared for plans, here alone: whoever shares weights takes those of
``Plans.model``. The first plan chooses the types of the weights; all others take them
as they are, so that a model is shared once.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

import jax
import jax.numpy as jnp
import numpy as np

from ditto.analysis import Network, tune_rounds
from ditto.client.tokens import Batch, pad_batch
from ditto.compiler import Profile, RangeReport
from ditto.compiler import compile as compile_plan
from ditto.compiler.pipeline import OnRanges
from ditto.fixedpoint import Array
from ditto.models import Model
from ditto.models.computation import Computation, Phase, function_of
from ditto.models.family import Cache
from ditto.models.model import Step
from ditto.models.preparation import Preparation, prepare
from ditto.owner.plan_cache import Label, PlanCache
from ditto.owner.plan_key import model_digest, plan_key
from ditto.owner.samples import Samples
from ditto.plan import Plan, Tree

WIDER, WIDEST = 4.0, 64.0
"""How many times wider than usual wide margins are, and the widest there are."""
FINER = 4.0
"""How many times finer than usual functions are fitted for a language model: of tens of
thousands of words the likeliest two are often close."""
_USUAL_LENGTH = 16
"""Tokens of a row, where no computation says how many."""
_PREPARED_ON = 16
"""Rows by which outliers are found."""
POSITIONS = 4
"""Positions of a row at which decoding is calibrated."""


OnStage = Callable[[str], None]
"""Called with what is being prepared."""


class Plans:
    """Makes each plan once; if a network is named, with its rounds tuned to it.

    With a ``cache``, a plan that was ever made on this machine is read instead;
    ``name`` is what it calls the model.
    """

    def __init__(
        self,
        model: Model,
        profile: Profile,
        samples: Samples,
        rows: int | None = None,
        network: Network | None = None,
        *,
        cache: PlanCache | None = None,
        name: str = "model",
    ) -> None:
        self.trained = model
        self.profile = profile
        self._network = network
        self._source = samples
        self._rows = rows
        self._cache, self._name = cache, name
        self._made: dict[Computation, Plan] = {}
        self._ranges: dict[Computation, RangeReport] = {}

    def plan(self, computation: Computation, on_stage: OnStage | None = None) -> Plan:
        """The plan of a computation."""
        if computation not in self._made:
            self._made[computation] = self._kept(computation, on_stage or _ignore)
        return self._made[computation]

    @cached_property
    def preparation(self) -> Preparation:
        """How the model is made ready for plans."""

        def samples() -> tuple[Array, Array]:
            length = min(_USUAL_LENGTH, self.trained.max_tokens)
            rows = [self._source.row(k, length) for k in range(_PREPARED_ON)]
            batch = pad_batch(rows, length, self._source.pad_id)
            return batch.ids, batch.mask

        return prepare(self.trained, samples)

    @cached_property
    def model(self) -> Model:
        """The model as it is compiled and shared."""
        return self.preparation.model(self.trained)

    @cached_property
    def model_digest(self) -> str:
        """Of the weights, the configuration and the head."""
        return model_digest(self.model)

    @cached_property
    def identity(self) -> str:
        """Of the model and all that its plans are made with."""
        usual = Computation(Phase.FORWARD, 1, _USUAL_LENGTH)
        batches = (self._batch(usual, k) for k in range(self._count(usual)))
        settings = self.model_digest, self.profile, self._network
        return plan_key(*settings, usual, batches, None)

    def _kept(self, computation: Computation, on_stage: OnStage) -> Plan:
        """The plan in the cache, or else one that will be there."""
        if self._cache is None:
            return self._compiled(computation, on_stage=on_stage)
        on_stage("looking for the plan in the cache")
        key = plan_key(
            self.model_digest,
            self._profile(computation),
            self._network,
            computation,
            (self._batch(computation, k) for k in range(self._count(computation))),
            self._reused(computation),
        )
        plan = self._cache.get(key)
        if plan is None:
            plan = self._compiled(computation, on_stage=on_stage)
            label = Label(self._name, self.profile.name, str(computation))
            self._cache.put(key, plan, label)
        return plan

    def ranges(
        self, computation: Computation, on_stage: OnStage | None = None
    ) -> RangeReport:
        """What holds the ranges of a computation's plan: for the owner alone, as it
        tells more of the weights than the plan does. Empty if SPU has its own types.

        A plan that was made before is made once more for it.
        """
        if computation not in self._ranges:
            reports: list[RangeReport] = []
            plan = self._compiled(
                computation, on_ranges=reports.append, on_stage=on_stage
            )
            self._made.setdefault(computation, plan)
            self._ranges[computation] = reports[0] if reports else RangeReport(())
        return self._ranges[computation]

    def _compiled(
        self,
        computation: Computation,
        *,
        on_ranges: OnRanges | None = None,
        on_stage: OnStage | None = None,
    ) -> Plan:
        reused = self._reused(computation)
        samples = self.samples(computation)
        plan = compile_plan(
            function_of(self.model, computation),
            samples[0],
            profile=self._profile(computation),
            calibration=samples,
            weight_argnums=(0,),
            public_argnums=computation.public_argnums,
            state_argnums=computation.state_argnums,
            retain_outputs=computation.retain_outputs,
            reuse_shares_of=None if reused is None else _serving(*reused),
            on_ranges=on_ranges,
            on_stage=on_stage,
        )
        if self._network is not None and self.profile.rounds == "mixed":
            return tune_rounds(plan, self._network)
        return plan

    def _profile(self, computation: Computation) -> Profile:
        profile = self.profile
        if computation.phase in (Phase.PREFILL, Phase.DECODE):
            profile = profile.replace(fit_error=profile.fit_error / FINER)
            if self.trained.family.has_outliers:
                prompt = computation.phase is Phase.PREFILL
                profile = profile.replace(remainders="all" if prompt else "few")
        if not computation.wide:
            return profile
        return profile.replace(margin=min(profile.margin * WIDER, WIDEST))

    def _reused(self, computation: Computation) -> tuple[Plan, bool] | None:
        """The plan whose shares of weights serve too, and whether those of state do."""
        earlier = list(takewhile(lambda m: m[0] != computation, self._made.items()))
        for other, plan in earlier:
            if other.retain_outputs and other.wide == computation.wide:
                return plan, True
        if computation.phase is Phase.DECODE:
            length = self._text_length(computation)
            prompt = replace(computation, phase=Phase.PREFILL, length=length)
            return self.plan(prompt), True
        return (earlier[0][1], False) if earlier else None

    def samples(self, computation: Computation) -> list[tuple[Tree, ...]]:
        """Sample arguments of a computation."""
        count = self._count(computation)
        if computation.phase is not Phase.DECODE:
            return [self._sample(computation, k) for k in range(count)]
        return [s for k in range(count) for s in self._decode_samples(computation, k)]

    def _count(self, computation: Computation) -> int:
        """How many batches of samples there are."""
        rows = self._rows or self._source.rows(self._text_length(computation))
        size = computation.batch_size
        return -(-max(rows, 2 * size) // size)

    def _text_length(self, computation: Computation) -> int:
        """Tokens of its texts: a cache has room for the prefix too."""
        decoding = computation.phase is Phase.DECODE
        return computation.length - decoding * self.trained.prefix_length

    def _batch(self, computation: Computation, k: int) -> Batch:
        size, length = computation.batch_size, self._text_length(computation)
        rows = [
            self._source.row(k * size + i, length, pairs=computation.with_types)
            for i in range(size)
        ]
        return pad_batch(rows, length, self._source.pad_id)

    def _sample(self, computation: Computation, k: int) -> tuple[Tree, ...]:
        params, batch = self.model.params, self._batch(computation, k)
        if computation.phase is Phase.PREFILL:
            return params, batch.ids, batch.lengths
        mask = batch.mask.astype(np.float32) if computation.hide_length else batch.mask
        inputs = (params, batch.ids, mask)
        return (*inputs, batch.types) if computation.with_types else inputs

    def _decode_samples(
        self, computation: Computation, k: int
    ) -> list[tuple[Tree, ...]]:
        """One row at several positions, the last and the first among them: some tokens
        in a text go nearly as far as the first one does."""
        params, batch = self.model.params, self._batch(computation, k)
        _, cache = self._prefill(params, batch.ids, batch.lengths)
        rng = np.random.default_rng(k)
        samples = []
        ends = batch.lengths - 1, np.zeros_like(batch.lengths)
        among = POSITIONS - len(ends), *batch.lengths.shape
        for positions in (*ends, *rng.integers(0, batch.lengths, among)):
            ids = np.take_along_axis(batch.ids, positions[:, None].astype(int), 1)[:, 0]
            places = (positions + self.model.prefix_length).astype(np.int32)
            samples.append((params, ids, places, cache))
        return samples

    @cached_property
    def _prefill(self) -> Step:
        prefill: Step = jax.jit(self.model.prefill)
        return prefill


def _serving(plan: Plan, with_state: bool) -> Plan:
    """A plan of which the weights, and the state if wanted, are to serve another."""
    if with_state:
        return plan
    outputs = (replace(output, retained=False) for output in plan.outputs)
    return replace(plan, outputs=tuple(outputs))


def _ignore(_: str) -> None:
    """Nobody asked what is being prepared."""


def grown(cache: Cache, length: int) -> Cache:
    """A cache in the clear with room for ``length`` positions."""

    def pad(x: jax.Array) -> jax.Array:
        return jnp.pad(x, ((0, 0), (0, 0), (0, length - x.shape[2]), (0, 0)))

    padded: Cache = jax.tree.map(pad, cache)
    return padded
