"""The owner's part: plans of a model for every shape that is asked for.

Plans are calibrated on sample texts, never on what a client asks. The first plan
chooses the types of the weights; all others take them as they are, so that a model is
shared once.
"""

from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.client.tokens import Batch, pad_batch
from ditto.compiler import Plan, Profile
from ditto.compiler import compile as compile_plan
from ditto.compiler.estimate import Network, suited
from ditto.inference.jobs import Job, function_of
from ditto.inference.samples import Samples
from ditto.models import Model, gpt2

POSITIONS = 4
"""Positions of a row at which going on is calibrated."""


class Plans:
    """Makes plans, each once, and if a network is named, such that they suit it."""

    def __init__(
        self,
        model: Model,
        profile: Profile,
        samples: Samples,
        rows: int | None = None,
        network: Network | None = None,
    ) -> None:
        self.model = model
        self.profile = profile
        self._network = network
        self._source = samples
        self._rows = rows
        self._made: dict[Job, Plan] = {}

    def plan(self, job: Job) -> Plan:
        """The plan of a job."""
        if job not in self._made:
            first = next(iter(self._made.values()), None)
            if job.kind == "go on":
                first = self._beginning(job)
            samples = self.samples(job)
            made = compile_plan(
                function_of(self.model, job),
                samples[0],
                profile=self.profile,
                calibration=samples,
                weights=(0,),
                public=job.public,
                state=job.state,
                keep=job.keep,
                like=first,
            )
            if self._network is not None and self.profile.rounds == "mixed":
                made = suited(made, self._network)
            self._made[job] = made
        return self._made[job]

    def _beginning(self, job: Job) -> Plan:
        """A plan that leaves the state which a job goes on with."""
        for made, plan in self._made.items():
            if made.kind in ("begin", "go on"):
                return plan
        return self.plan(Job("begin", job.batch, job.length, inside=job.inside))

    def samples(self, job: Job) -> list[tuple[Any, ...]]:
        """Sample arguments of a job."""
        rows = self._rows or self._source.rows(job.length)
        count = -(-max(rows, 2 * job.batch) // job.batch)
        if job.kind != "go on":
            return [self._sample(job, k) for k in range(count)]
        return [s for k in range(count) for s in self._continued(job, k)]

    def _batch(self, job: Job, k: int) -> Batch:
        rows = [
            self._source.row(k * job.batch + i, job.length, pairs=job.pairs)
            for i in range(job.batch)
        ]
        return pad_batch(rows, job.length, self._source.pad_id)

    def _sample(self, job: Job, k: int) -> tuple[Any, ...]:
        params, batch = self.model.params, self._batch(job, k)
        if job.kind == "begin":
            return params, batch.ids, batch.lengths
        mask = batch.mask.astype(np.float32) if job.hides_length else batch.mask
        inputs = (params, batch.ids, mask)
        return (*inputs, batch.types) if job.pairs else inputs

    def _continued(self, job: Job, k: int) -> list[tuple[Any, ...]]:
        """One row at several positions, the last among them."""
        params, batch = self.model.params, self._batch(job, k)
        _, cache = self._begin(params, batch.ids, batch.lengths)
        rng = np.random.default_rng(k)
        found = []
        for at in range(POSITIONS):
            last = batch.lengths - 1
            positions = rng.integers(0, batch.lengths) if at else last
            ids = np.take_along_axis(batch.ids, positions[:, None].astype(int), 1)[:, 0]
            found.append((params, ids, positions.astype(np.int32), cache))
        return found

    @cached_property
    def _begin(self) -> Any:
        return jax.jit(partial(gpt2.begin, self.model.config))


def grown(cache: Any, length: int) -> Any:
    """A cache in the clear with room for ``length`` positions."""

    def pad(x: Any) -> Any:
        return jnp.pad(x, ((0, 0), (0, 0), (0, length - x.shape[2]), (0, 0)))

    return jax.tree.map(pad, cache)
