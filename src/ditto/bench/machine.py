"""How fast this machine is for parties: ``Machine``, fitted to small models that run.

A few random models of different shapes are computed by three parties, so that what a
plan counts (products, weights that are read, bytes, rounds) weighs differently in each.
Seconds of a party's processor are then explained by these counts, by least squares of
relative errors with no negative rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import combinations

import numpy as np

from ditto.analysis import USUAL, Machine, Work, work_of
from ditto.api.backends import OnStage, PartiesBackend
from ditto.client.tokens import pad_batch
from ditto.compiler import find_profile
from ditto.models import PROBE_SHAPES, Head, random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.runtime import ProcessTrio, Trio

_ROWS = 4
"""Random texts that plans are calibrated on: they are all alike."""
_WORDS, _CACHE = 2048, 64


REPEAT = 6
"""Timed runs of each probe, unless it is said."""


@dataclass(frozen=True)
class Probe:
    """A model of a preset, and the tokens of a text."""

    preset: str
    layers: int
    tokens: int
    changes: Mapping[str, int] = field(default_factory=dict)
    """Of the preset."""

    @property
    def name(self) -> str:
        """The preset, and its width if it has another."""
        width = self.changes.get("hidden_size")
        return self.preset if width is None else f"{self.preset} of width {width}"


PROBES = tuple(Probe(*shape) for shape in PROBE_SHAPES)


@dataclass(frozen=True)
class Measured:
    """What one computation counts, and what it took."""

    what: str
    work: Work
    seconds: float
    """Of the processor of the party that needed most, in the run that needed least:
    others shared the machine with something else."""


def measure_machine(
    on_stage: OnStage, *, repeat: int = REPEAT, probes: Sequence[Probe] = PROBES
) -> list[Measured]:
    """All probes, by three processes of this machine."""
    found: list[Measured] = []
    with ProcessTrio(timeout=900) as trio:
        for probe in probes:
            on_stage(f"{probe.name}, {probe.tokens} tokens")
            found += _measured(probe, trio, repeat)
    return found


def _measured(probe: Probe, trio: Trio, repeat: int) -> list[Measured]:
    model = random_model(
        probe.preset,
        num_hidden_layers=probe.layers,
        vocab_size=_WORDS,
        **probe.changes,
    )
    samples = RandomSamples(_WORDS)
    plans = Plans(model, find_profile("ditto"), samples, rows=_ROWS)
    batch = pad_batch([samples.row(1000, probe.tokens)], probe.tokens, samples.pad_id)
    parties = PartiesBackend(plans, trio)
    generates = model.head is Head.TEXT_GENERATION
    first = Computation(Phase.PREFILL if generates else Phase.FORWARD, 1, probe.tokens)
    jobs = [first]
    for _ in range(1 + repeat):  # the first time they also arrange their weights
        if not generates:
            parties.run(first, (batch.ids, batch.mask))
            continue
        begun = parties.run(first, (batch.ids, batch.lengths))
        token = np.argmax(begun.result, -1).astype(np.int32)
        jobs = [first, Computation(Phase.DECODE, 1, _CACHE)]
        ended = parties.run(jobs[1], (token, batch.lengths), begun.state)
        parties.release(ended.state)
    spent = [max(float(each["cpu"]) for each in run) for run in parties.spent]
    timed = spent[len(jobs) :]
    return [
        Measured(
            f"{probe.name}, {job.phase.value}, {probe.tokens} tokens",
            work_of(plans.plan(job)),
            min(timed[k :: len(jobs)]),
        )
        for k, job in enumerate(jobs)
    ]


def fit(measured: Sequence[Measured]) -> Machine:
    """The machine whose seconds are nearest to those measured, relatively."""
    seconds = np.array([each.seconds for each in measured])
    counts = np.array([astuple(each.work) for each in measured]) / seconds[:, None]
    kept = [k for k in range(counts.shape[1]) if counts[:, k].any()]
    best, least = np.zeros(counts.shape[1]), np.inf
    for size in range(1, len(kept) + 1):
        for chosen in combinations(kept, size):
            rates, *_ = np.linalg.lstsq(counts[:, chosen], np.ones(len(seconds)))
            error = float(((counts[:, chosen] @ rates - 1) ** 2).sum())
            if error < least and (rates >= 0).all():
                best, least = np.zeros(counts.shape[1]), error
                best[[*chosen]] = rates
    names = [each.name for each in fields(Machine)]
    machine = Machine(**dict(zip(names, best.tolist(), strict=True)))
    # nothing here runs in SPU: it is taken to be as much slower as it is elsewhere
    slower = USUAL.spu_byte_sent / USUAL.byte_sent
    sent = machine.byte_sent or USUAL.byte_sent
    return replace(machine, spu_byte_sent=sent * slower)
