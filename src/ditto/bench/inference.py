"""Whole models in several profiles, on a network: bytes, rounds, seconds, memory.

Models are shapes with random weights, whose cost is that of trained ones, or folders.
Every model and profile gets three new processes over TLS, each on a host of its own if
the network is shaped. The first run counts and warms up, the others are timed; SPU's
profiles are timed with SPU on its own links, without our mailbox between.

A model may be measured at a reduced ``depth``: then it is run with ``depth`` layers and
with one less, and what a layer costs is added for those that are missing, and the row
says so (``measured_layers``). Seconds are an estimate this way; bytes of SPU's profiles
are exact, ours nearly, since types differ from layer to layer.
"""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ditto.bench import programs
from ditto.bench.layer import with_gelu
from ditto.bench.mpcformer import EncoderShape, Softmax, bench_mpcformer
from ditto.bench.network import NETWORKS, Hosts, Network, open_hosts
from ditto.client import Tokenizer
from ditto.client.tokens import pad_batch
from ditto.compiler import Plan
from ditto.compiler.explain import describe
from ditto.compiler.local import Run
from ditto.engine import ProcessTrio
from ditto.errors import SetupError
from ditto.inference.backends import FloatBackend, PartiesBackend
from ditto.inference.jobs import Job
from ditto.inference.plans import Plans
from ditto.inference.samples import RandomSamples, Samples, TextSamples
from ditto.models import Model, load_model, random_model

SHAPES: dict[str, dict[str, Any]] = {
    "bert-base": {"family": "bert", "width": 768, "layers": 12, "heads": 12},
    "bert-large": {"family": "bert", "width": 1024, "layers": 24, "heads": 16},
    "bert-tiny": {"family": "bert", "width": 16, "layers": 3, "heads": 2},
    "gpt2-base": {"family": "gpt2", "width": 768, "layers": 12, "heads": 12},
    "gpt2-medium": {"family": "gpt2", "width": 1024, "layers": 24, "heads": 16},
    "gpt2-tiny": {"family": "gpt2", "width": 16, "layers": 2, "heads": 2},
}
LENGTHS = {"bert": 128, "gpt2": 32}
"""Tokens of the text, unless told."""
CACHE = 128
"""Positions of the cache that further tokens are measured with."""
MPCFORMER: dict[str, Softmax] = {"mpcformer": "softmax", "mpcformer-2relu": "2relu"}
"""Baselines that are no profile, and their softmax."""

Progress = Callable[[str], None]
Json = dict[str, Any]
_ROWS = 4
"""Rows of calibration: random weights do not repay more."""
_SUMS = ("bytes", "rounds", "seconds")
_PACKAGES = ("spu", "jax", "numpy")


@dataclass(frozen=True)
class Setting:
    """What is measured, beside model and profile."""

    seq: int | None = None
    batch: int = 1
    gelu: str = "quad"
    repeat: int = 1
    depth: int | None = None


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


def bench_inference(
    models: Sequence[str],
    profiles: Sequence[str],
    setting: Setting | None = None,
    *,
    network: Network | None = None,
    progress: Progress = lambda _: None,
    on_result: Callable[[Json], None] = lambda _: None,
) -> list[Json]:
    """Every model in every profile."""
    chosen, place = setting or Setting(), network or NETWORKS["loopback"]
    results = []
    for name in models:
        for profile in profiles:
            said = partial(_say, progress, f"{name}, {profile}")
            said(f"opening the network {place.name}")
            with open_hosts(place) as hosts:
                measured = asdict(hosts.measured)
                if profile in MPCFORMER:
                    found = _mpcformer(name, profile, chosen, hosts, said)
                else:
                    found = _scaled(name, profile, chosen, hosts, said)
            found |= {"model": Path(name).name, "batch": chosen.batch}
            found["network"] = {"name": place.name, **measured}
            results.append(found)
            on_result(found)
    return results


def _say(progress: Progress, what: str, said: str) -> None:
    progress(f"{what}: {said}")


def _load(name: str, layers: int | None) -> tuple[Model, Samples]:
    if name in SHAPES:
        shape = dict(SHAPES[name])
        if layers is not None:
            shape["layers"] = layers
        model = random_model(shape.pop("family"), **shape)
        return model, RandomSamples(model.config.vocabulary)
    if layers is not None:
        raise SetupError("Only shapes can be measured at a reduced depth.")
    if Path(name).is_dir():
        return load_model(name), TextSamples(Tokenizer.load(name))
    raise SetupError(f"{name!r} is neither a folder nor one of {', '.join(SHAPES)}.")


def _scaled(
    name: str, profile: str, setting: Setting, hosts: Hosts, progress: Progress
) -> Json:
    depth = setting.depth
    if depth is None:
        model, samples = _load(name, None)
        layers = int(model.config.layers)
        row = _measure(model, samples, profile, setting, hosts, progress)
        return {**row, "layers": layers, "measured_layers": layers}
    layers = SHAPES[name]["layers"] if name in SHAPES else 0
    if not 2 <= depth < layers:
        raise SetupError(f"--depth lies between 2 and {layers - 1} for {name!r}.")
    rows = []
    for k in (depth - 1, depth):
        said = partial(_say, progress, f"{k} of {layers} layers")
        rows.append(_measure(*_load(name, k), profile, setting, hosts, said))
    return _stretched(rows[0], rows[1], layers, depth)


def _stretched(less: Json, row: Json, layers: int, depth: int) -> Json:
    """A row of ``depth`` layers with those that are missing added."""

    def stretch(a: Json, b: Json) -> Json:
        more = {k: b[k] + (layers - depth) * max(b[k] - a[k], 0) for k in _SUMS}
        return {**b, **more, "seconds": round(more["seconds"], 3)}

    made = stretch(less, row)
    for part in ("first_token", "next_token"):
        if part in row:
            made[part] = stretch(less[part], row[part])
    for name in ("parts", "spent", "runs"):
        made.pop(name, None)
    return {**made, "layers": layers, "measured_layers": depth}


def _measure(
    model: Model,
    samples: Samples,
    profile: str,
    setting: Setting,
    hosts: Hosts,
    progress: Progress,
) -> Json:
    plans = Plans(
        model,
        with_gelu(profile, setting.gelu),
        samples,
        rows=_ROWS,
        network=hosts.network if hosts.network.shaped else None,
    )
    length = setting.seq or LENGTHS.get(model.family, 128)
    rows = [samples.row(1000 + k, length) for k in range(setting.batch)]
    asked = pad_batch(rows, length, samples.pad_id)
    progress("starting three parties")
    trio = ProcessTrio(
        timeout=900,
        hosts=hosts.hosts,
        prefixes=hosts.prefixes,
        bare_links=_spu_computes(plans),
    )
    parties = PartiesBackend(
        model,
        plans,
        trio,
        on_stage=progress,
        on_part=lambda part, step, steps: progress(f"{part} ({step} of {steps} steps)"),
    )
    quad = plans.profile.gelu == "quad"
    plain = FloatBackend(model.configured(activation="quad") if quad else model)
    with trio:
        if model.head == "generate":
            first = Job("begin", setting.batch, length)
            found, state, due, cache = _timed(
                parties, plain, plans, first, [asked.ids, asked.lengths], setting
            )
            token = np.argmax(due, -1).astype(np.int32)
            then = Job("go on", setting.batch, max(CACHE, length + 1))
            further, *_ = _timed(
                parties, plain, plans, then, [token, asked.lengths], setting,
                state, cache,
            )  # fmt: skip
            found |= {"first_token": dict(found), "next_token": further}
        else:
            job = Job("answer", setting.batch, length)
            found, *_ = _timed(
                parties, plain, plans, job, [asked.ids, asked.mask], setting
            )
        memory = parties.peak_memory()
    return {
        "profile": plans.profile.name,
        "gelu": plans.profile.gelu,
        "seq": length,
        **found,
        "peak_rss_mb": round(max(memory) / 1e6),
    }


def _timed(
    parties: PartiesBackend,
    plain: FloatBackend,
    plans: Plans,
    job: Job,
    inputs: list[Any],
    setting: Setting,
    state: Any = None,
    cache: Any = None,
) -> tuple[Json, Any, Any, Any]:
    """One run that counts, then runs that are timed; a conversation goes on.

    Where SPU computes, it is timed on links of its own, without ours between.
    """
    got, left = parties.run(job, inputs, state)
    due, after = plain.run(job, inputs, cache)
    counted = parties.runs[-1]
    if _spu_computes(plans):
        parties.trio.call(programs.use_bare_links, {"bare": True})
    first = len(parties.runs)
    for _ in range(setting.repeat):
        again = None if state is None else left
        _, newest = parties.run(job, inputs, again)
        if state is None:
            parties.release(newest)
        else:
            left = newest
    if _spu_computes(plans):
        parties.trio.call(programs.use_bare_links, {"bare": False})
    runs = parties.runs[first:]
    middle = sorted(range(len(runs)), key=lambda k: runs[k].seconds)[len(runs) // 2]
    spent = parties.spent[first + middle]
    found = {
        "bytes": counted.bytes,
        "rounds": counted.rounds,
        "seconds": round(statistics.median(r.seconds for r in runs), 3),
        "runs": [round(r.seconds, 3) for r in runs],
        "cpu_seconds": [round(s["cpu"], 3) for s in spent],
        "upload_bytes": parties.uploaded[first - 1],
        "mean_abs_error": float(np.mean(np.abs(got - due))),
        "mean_abs_value": float(np.mean(np.abs(due))),
    }
    if not _spu_computes(plans):
        found |= _where_time_goes(plans.plan(job), runs[middle], spent)
    return found, left, due, after


def _spu_computes(plans: Plans) -> bool:
    return plans.profile.engine != "rings"


def _where_time_goes(plan: Plan, run: Run, spent: list[Json]) -> Json:
    """Of the slowest party; and the steps of every scope, by kind."""
    slowest = max(spent, key=lambda s: s["seconds"])
    waiting, copies = slowest["waiting"], slowest["copies"]
    between = max(slowest["seconds"] - slowest["inside"], 0.0)
    # a step's seconds are of its slowest party: together they are more than the run's
    real = slowest["seconds"] / max(sum(step.seconds for step in run.steps), 1e-9)
    parts: dict[tuple[str, str, str], list[float]] = {}
    for step, cost in zip(plan.steps, run.steps, strict=True):
        what = describe(plan, step)
        held = parts.setdefault(
            (step.scope, what, _ring(plan, cost.op, step)), [0, 0, 0]
        )
        for k, value in enumerate((cost.bytes, cost.rounds, cost.seconds * real)):
            held[k] += value
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


def _ring(plan: Plan, op: str, step: Any) -> str:
    if op == "region":
        return f"spu{plan.regions[step.params['region']].bits}"
    kinds = [plan.values[v].type for v in step.outputs]
    return str(max((k.bits for k in kinds if k is not None), default="free"))


def _mpcformer(
    name: str, profile: str, setting: Setting, hosts: Hosts, progress: Progress
) -> Json:
    shape = SHAPES.get(name, {})
    if shape.get("family") != "bert":
        raise SetupError(f"{profile} is measured on BERT's shapes, not on {name!r}.")
    seq = setting.seq or LENGTHS["bert"]
    layers, depth = int(shape["layers"]), setting.depth
    rows = [
        bench_mpcformer(
            EncoderShape(k, shape["width"], shape["heads"], 4 * shape["width"]),
            seq=seq,
            batch=setting.batch,
            softmax=MPCFORMER[profile],
            addresses=tuple(host.rsplit(":", 1)[0] for host in hosts.hosts[:2]),
            prefixes=tuple(hosts.prefixes[:2]),
            repeat=setting.repeat,
            progress=progress,
        )
        for k in ((layers,) if depth is None else (depth - 1, depth))
    ]
    made = rows[-1] if depth is None else _stretched(rows[0], rows[1], layers, depth)
    return {
        **made,
        "gelu": "quad",
        "seq": seq,
        "layers": layers,
        "measured_layers": depth or layers,
    }
