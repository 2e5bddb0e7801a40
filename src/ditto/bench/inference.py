"""What a model costs, as a client asks it: bytes, rounds, seconds, upload, memory.

The first run of three parties counts and warms up, the others are timed.
"""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ditto.analysis import describe
from ditto.api.backends import (
    FloatBackend,
    OnPart,
    OnStage,
    PartiesBackend,
    State,
)
from ditto.api.local import Run
from ditto.client import Tokenizer
from ditto.client.tokens import pad_batch
from ditto.compiler import Profile
from ditto.fixedpoint import Array
from ditto.frames import Json
from ditto.models import Head, Model, load_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import Samples, Text, TextSamples
from ditto.plan import Plan
from ditto.runtime import ProcessTrio, Trio
from ditto.steps import Site, definition

ENCODER_LENGTH, DECODER_LENGTH = 128, 32
"""Tokens of a text, unless a length is asked for."""
CACHE = 128
"""Positions of the cache that further tokens are measured with."""

Timing = Callable[[], AbstractContextManager[None]]
"""What surrounds the runs that are timed."""

_FIRST_ROW = 1000
"""Of the samples that are asked: plans are calibrated on those before."""
_PACKAGES = ("spu", "jax", "numpy")


@dataclass(frozen=True)
class Setting:
    """What is asked, and how often it is timed."""

    length: int | None = None
    batch: int = 1
    repeat: int = 1

    def tokens(self, model: Model) -> int:
        """The length that is asked for, or the usual one of such a model."""
        usual = DECODER_LENGTH if model.head is Head.TEXT_GENERATION else ENCODER_LENGTH
        return self.length or usual


def machine() -> Json:
    """What a reader of seconds needs to know."""
    with open("/proc/cpuinfo", encoding="ascii") as lines:
        names = {
            line.split(":", 1)[1].strip() for line in lines if "model name" in line
        }
    return {
        "versions": {
            "ditto": version("ditto-mpc"),
            "python": platform.python_version(),
            **{name: version(name) for name in _PACKAGES},
        },
        "cpu": ", ".join(sorted(names)) or platform.machine(),
        "cores": os.cpu_count(),
    }


def bench_folder(
    folder: Path,
    profile: Profile,
    setting: Setting,
    *,
    calibration: Sequence[Text] | None = None,
    on_stage: OnStage = lambda _: None,
    on_part: OnPart = lambda *_: None,
) -> Json:
    """The model in a Hugging Face folder, by three processes of this machine."""
    model = load_model(folder)
    samples = TextSamples(Tokenizer.load(folder), calibration)
    plans = Plans(model, profile, samples)
    on_stage("starting three parties")
    with ProcessTrio(timeout=900) as trio:
        row = measure(
            model, plans, samples, trio, setting, on_stage=on_stage, on_part=on_part
        )
    layers = model.config.num_hidden_layers
    return {
        "model": folder.resolve().name,
        **row,
        "network": {"name": "loopback"},
        "layers": layers,
        "measured_layers": layers,
    }


def measure(
    model: Model,
    plans: Plans,
    samples: Samples,
    trio: Trio,
    setting: Setting,
    *,
    on_stage: OnStage,
    on_part: OnPart,
    timing: Timing = nullcontext,
) -> Json:
    """One answer, or a first token and a next one, by the parties of ``trio``.

    Bytes and rounds are of all parties together, seconds the median of the timed runs,
    each of its slowest party; the error is against the same model in float.
    """
    length = setting.tokens(model)
    rows = [samples.row(_FIRST_ROW + k, length) for k in range(setting.batch)]
    batch = pad_batch(rows, length, samples.pad_id)
    parties = PartiesBackend(plans, trio, on_stage=on_stage, on_part=on_part)
    quad = plans.profile.gelu == "quad"
    plain = FloatBackend(model.with_config(hidden_act="quad") if quad else model)
    meter = _Meter(parties, plain, plans, setting.repeat, timing)
    if model.head is Head.TEXT_GENERATION:
        first = Computation(Phase.PREFILL, setting.batch, length)
        begun = meter.measure(first, [batch.ids, batch.lengths])
        token = np.argmax(begun.expected, -1).astype(np.int32)
        then = Computation(Phase.DECODE, setting.batch, max(CACHE, length + 1))
        further = meter.measure(then, [token, batch.lengths], begun)
        cost = {
            **begun.cost,
            "first_token": begun.cost,
            "next_token": further.cost,
        }
    else:
        job = Computation(Phase.FORWARD, setting.batch, length)
        cost = meter.measure(job, [batch.ids, batch.mask]).cost
    return {
        "profile": plans.profile.name,
        "gelu": plans.profile.gelu,
        "seq": length,
        "batch": setting.batch,
        **cost,
        "peak_rss_mb": round(max(parties.peak_memory()) / 1e6),
    }


@dataclass(frozen=True)
class _Measured:
    """What a job cost, what the float model answers, and what both keep."""

    cost: Json
    expected: Array
    state: State
    cache: State


@dataclass(frozen=True)
class _Meter:
    parties: PartiesBackend
    plain: FloatBackend
    plans: Plans
    repeat: int
    timing: Timing

    def measure(
        self, job: Computation, inputs: Sequence[Array], before: _Measured | None = None
    ) -> _Measured:
        """One run that counts, then runs that are timed; a conversation continues."""
        parties = self.parties
        state, cache = (before.state, before.cache) if before else (None, None)
        outcome = parties.run(job, inputs, state)
        exact = self.plain.run(job, inputs, cache)
        answer, expected, cache = outcome.result, exact.result, exact.state
        counted, first = parties.runs[-1], len(parties.runs)
        with self.timing():
            for _ in range(self.repeat):
                if before:
                    outcome = parties.run(job, inputs, outcome.state)
                else:
                    parties.release(parties.run(job, inputs).state)
        runs = parties.runs[first:]
        middle = sorted(range(len(runs)), key=lambda k: runs[k].seconds)[len(runs) // 2]
        spent = parties.spent[first + middle]
        cost = {
            "bytes": counted.bytes,
            "rounds": counted.rounds,
            "seconds": round(statistics.median(run.seconds for run in runs), 3),
            "runs": [round(run.seconds, 3) for run in runs],
            "cpu_seconds": [round(s["cpu"], 3) for s in spent],
            "upload_bytes": parties.uploaded[first - 1],
            "mean_abs_error": float(np.mean(np.abs(answer - expected))),
            "mean_abs_value": float(np.mean(np.abs(expected))),
        }
        if self.plans.profile.engine == "rings":  # SPU's steps are not ours to divide
            cost |= _where_time_goes(self.plans.plan(job), runs[middle], spent)
        return _Measured(cost, expected, outcome.state, cache)


def _where_time_goes(plan: Plan, run: Run, spent: list[Json]) -> Json:
    """Of the slowest party; and the steps of every scope, by kind."""
    slowest = max(spent, key=lambda s: s["seconds"])
    waiting, copies = slowest["waiting"], slowest["copies"]
    between = max(slowest["seconds"] - slowest["inside"], 0.0)
    # a step's seconds are of its slowest party: together they are more than the run's
    real = slowest["seconds"] / max(sum(step.seconds for step in run.steps), 1e-9)
    parts: dict[tuple[str, str, str], list[float]] = {}
    for i, cost in enumerate(run.steps):
        site = Site.of(plan, i)
        key = (site.step.scope, describe(site), _ring(site))
        sums = parts.setdefault(key, [0, 0, 0])
        for k, value in enumerate((cost.bytes, cost.rounds, cost.seconds * real)):
            sums[k] += value
    return {
        "spent": {
            "compute": round(slowest["seconds"] - waiting - copies - between, 4),
            "waiting": round(waiting, 4),
            "copies": round(copies, 4),
            "python": round(between, 4),
        },
        "parts": [
            {
                "scope": scope,
                "what": what,
                "ring": ring,
                "bytes": int(bytes_),
                "rounds": int(rounds),
                "seconds": round(seconds, 5),
            }
            for (scope, what, ring), (bytes_, rounds, seconds) in parts.items()
        ],
    }


def _ring(site: Site) -> str:
    region = definition(site.step).region_used()
    if region is not None:
        return f"spu{site.plan.regions[region].bits}"
    types = [value.type for value in site.results]
    return str(max((t.bits for t in types if t is not None), default="free"))
