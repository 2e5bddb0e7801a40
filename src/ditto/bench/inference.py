"""Whole models in several profiles: bytes, rounds, seconds, memory.

Models are shapes with random weights, whose cost is that of trained ones, or folders.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ditto.bench.layer import with_gelu
from ditto.client import Tokenizer
from ditto.client.tokens import pad_batch
from ditto.compiler.local import Run
from ditto.errors import SetupError
from ditto.inference.backends import FloatBackend, PartiesBackend
from ditto.inference.jobs import Job
from ditto.inference.plans import Plans
from ditto.inference.sample_text import SAMPLE_TEXT
from ditto.inference.samples import RandomSamples, Samples, TextSamples
from ditto.models import Model, load_model, random_model

SHAPES: dict[str, dict[str, Any]] = {
    "bert-base": {"family": "bert", "width": 768, "layers": 12, "heads": 12},
    "bert-large": {"family": "bert", "width": 1024, "layers": 24, "heads": 16},
    "gpt2-base": {"family": "gpt2", "width": 768, "layers": 12, "heads": 12},
    "gpt2-medium": {"family": "gpt2", "width": 1024, "layers": 24, "heads": 16},
}
LENGTHS = {"bert": 128, "gpt2": 32}
"""Tokens of the text, unless told."""
CACHE = 128
"""Positions of the cache that further tokens are measured with."""

Progress = Callable[[str], None]
_ROWS = 4
"""Rows of calibration: random weights do not repay more."""


def bench_inference(
    models: Sequence[str],
    profiles: Sequence[str],
    gelu: str = "quad",
    *,
    seq: int | None = None,
    batch: int = 1,
    progress: Progress = lambda _: None,
    on_result: Callable[[dict[str, Any]], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Every model in every profile; three new processes over TLS for each."""
    results = []
    for name in models:
        model, samples = _load(name)
        length = seq or LENGTHS.get(model.family, 128)
        for profile in profiles:
            plans = Plans(model, with_gelu(profile, gelu), samples, rows=_ROWS)
            said = partial(_say, progress, f"{name}, {profile}")
            found = {
                "model": name,
                "seq": length,
                "batch": batch,
                "profile": plans.profile.name,
                "gelu": plans.profile.gelu,
                "network": "loopback",
                **_measure(plans, samples, length, batch, said),
            }
            results.append(found)
            on_result(found)
    return results


def _load(name: str) -> tuple[Model, Samples]:
    if name in SHAPES:
        shape = dict(SHAPES[name])
        model = random_model(shape.pop("family"), **shape)
        return model, RandomSamples(model.config.vocabulary)
    if Path(name).is_dir():
        return load_model(name), TextSamples(Tokenizer.load(name), SAMPLE_TEXT)
    raise SetupError(f"{name!r} is neither a folder nor one of {', '.join(SHAPES)}.")


def _say(progress: Progress, what: str, said: str) -> None:
    progress(f"{what}: {said}")


def _reference(model: Model, gelu: str) -> Model:
    """The model in float, with the GeLU that the parties compute."""
    if gelu != "quad":
        return model
    return model.configured(activation="quad")


def _measure(
    plans: Plans,
    samples: Samples,
    length: int,
    batch: int,
    progress: Progress,
) -> dict[str, Any]:
    model = plans.model
    rows = [samples.row(1000 + k, length) for k in range(batch)]
    asked = pad_batch(rows, length, samples.pad_id)
    parties = PartiesBackend(
        model,
        plans,
        on_stage=progress,
        on_part=lambda part, step, steps: progress(f"{part} ({step} of {steps} steps)"),
    )
    plain = FloatBackend(_reference(model, plans.profile.gelu))
    generates = model.head == "generate"
    try:
        if generates:
            first = Job("begin", batch, length)
            answers = [asked.ids, asked.lengths]
        else:
            first = Job("answer", batch, length)
            answers = [asked.ids, asked.mask]
        got, state = parties.run(first, answers)
        due, cache = plain.run(first, answers)
        figures = [_figures(parties, got, due)]
        if generates:
            token = np.argmax(due, -1).astype(np.int32)
            then = Job("go on", batch, max(CACHE, length + 1))
            got, _ = parties.run(then, (token, asked.lengths), state)
            due, _ = plain.run(then, (token, asked.lengths), cache)
            figures.append(_figures(parties, got, due))
        memory = parties.peak_memory()
    finally:
        parties.close()
    result = {**figures[0], "peak_rss_mb": round(max(memory) / 1e6)}
    if generates:
        result |= {"first_token": figures[0], "next_token": figures[1]}
    return result


def _figures(parties: PartiesBackend, got: Any, due: Any) -> dict[str, Any]:
    spent: Run = parties.runs[-1]
    return {
        "bytes": spent.bytes,
        "rounds": spent.rounds,
        "seconds": round(spent.seconds, 3),
        "upload_bytes": parties.uploaded[-1],
        "mean_abs_error": float(np.mean(np.abs(got - due))),
        "mean_abs_value": float(np.mean(np.abs(due))),
    }
