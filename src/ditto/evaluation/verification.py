"""Float, simulator and parties on the same inputs, layer by layer.

The answer to "is my model safe to serve in this profile?": where the three part, by how
much, and how much room is left before a value overflows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ditto.compiler.simulator import Headroom
from ditto.errors import CapacityError, SetupError
from ditto.evaluation.evaluate import Setting, open_model
from ditto.inference import Pretrained
from ditto.inference.backends import SimulatedBackend

Verdict = Literal["safe", "tight", "unsafe"]

TIGHT = 0.5
"""Bits of headroom below which a model is tight: inputs half as large again overflow.
"""
AGREED = 0.9
"""The share of answers that must be the float model's; near ties may fall either way.
"""
PARTED = 0.05
"""An error of the answer, relative to its size, from which a model is unsafe."""


STEPS = 4
"""Tokens of a text that a language model is verified on one by one."""


@dataclass(frozen=True)
class Gap:
    """How far a tensor is from the float model's: mean and largest difference."""

    mean: float
    largest: float


@dataclass(frozen=True)
class Part:
    """One part of a model: its size in float, and what is lost of it."""

    name: str
    rms: float
    simulated: Gap | None
    parties: Gap
    headroom: Headroom | None

    @property
    def relative(self) -> float:
        """The mean error of the parties beside the usual magnitude."""
        return self.parties.mean / max(self.rms, 1e-12)


@dataclass(frozen=True)
class Verification:
    """What was found."""

    profile: str
    texts: int
    parts: tuple[Part, ...]
    overflows: tuple[str, ...]
    agreed: float
    """The share of answers whose largest entry is the float model's."""

    tightest: Headroom | None
    """The tensor that came closest to its bound, of all the model."""

    @property
    def verdict(self) -> Verdict:
        """Whether the model can be served."""
        answer = self.parts[-1]
        if self.overflows or answer.relative > PARTED or self.agreed < AGREED:
            return "unsafe"
        tightest = self.tightest
        return "tight" if tightest is not None and tightest.bits < TIGHT else "safe"


def verify(
    folder: str | Path, texts: Sequence[str], setting: Setting, *, length: int
) -> Verification:
    """Run all three on texts, each padded or cut to ``length`` tokens."""
    model = open_model(folder, "mpc", setting)
    models = {
        "float": model.also("float"),
        "simulate": model.also("simulate"),
        "mpc": model,
    }
    gathered: dict[str, list[list[Any]]] = {name: [] for name in models}
    overflows: list[str] = []
    try:
        for k, text in enumerate(texts):
            for name, one in models.items():
                try:
                    traced = _traced(one, text, length)
                    if model.model.head == "generate":
                        traced += _continued(one, text, length)
                    gathered[name].append(traced)
                except CapacityError as overflow:
                    overflows.append(f"text {k + 1}: {overflow}")
                    gathered[name].append([])
    finally:
        model.close()
    simulator = models["simulate"].backend
    found = simulator.headroom if isinstance(simulator, SimulatedBackend) else {}
    names = _part_names(model)
    parts = tuple(
        _part(name, k, gathered, found.get(name)) for k, name in enumerate(names)
    )
    pairs = zip(gathered["float"], gathered["mpc"], strict=True)
    agreed = [np.argmax(a[-1], -1) == np.argmax(b[-1], -1) for a, b in pairs]
    share = float(np.mean(np.concatenate([np.ravel(a) for a in agreed])))
    tightest = min(found.values(), key=lambda h: h.bits, default=None)
    return Verification(
        setting.profile.name, len(texts), parts, tuple(overflows), share, tightest
    )


def _traced(model: Pretrained, text: str, length: int) -> list[Any]:
    """The states of all layers where there is text, and the answer."""
    if not 2 <= length <= model.positions:
        raise SetupError(
            f"A length of {length}: the model has {model.positions} positions."
        )
    encoded = model.tokenizer.encode(text, max_length=length)
    job = model.job("trace", 1, length)
    (states, answer), _ = model.backend.run(job, model.inputs([encoded], length))
    count = len(encoded.ids)
    if model.model.head in ("tag", "fill", "generate"):
        answer = answer[:, :count]
    return [*(state[:, :count] for state in states), answer]


def _continued(model: Pretrained, text: str, length: int) -> list[Any]:
    """Logits of tokens that follow one by one, as a text is generated."""
    ids = model.tokenizer.encode(text, max_length=length).ids
    count = max(1, len(ids) - STEPS)
    padded = np.zeros((1, length), np.int32)
    padded[0, :count] = ids[:count]
    job, place = model.job("begin", 1, length), np.array([count], np.int32)
    logits, state = model.backend.run(job, (padded, place))
    found = [logits]
    job = model.job("go on", 1, length)
    for token in ids[count:]:
        given = np.array([token], np.int32)
        logits, state = model.backend.run(job, (given, place), state)
        found.append(logits)
        place = place + 1
    model.backend.release(state)
    return [np.stack(found, 1)]


def _part_names(model: Pretrained) -> list[str]:
    stack = "decoder" if model.model.family == "gpt2" else "encoder"
    layers = [f"{stack}.layer.{k}" for k in range(model.model.config.layers)]
    names = ["embeddings", *layers, model.model.head]
    return [*names, "token by token"] if model.model.head == "generate" else names


def _part(
    name: str,
    k: int,
    gathered: dict[str, list[list[Any]]],
    headroom: Headroom | None,
) -> Part:
    exact = gathered["float"]
    rms = float(np.sqrt(np.mean([np.mean(np.square(run[k])) for run in exact])))
    return Part(
        name,
        rms,
        _gap(exact, gathered["simulate"], k),
        _gap(exact, gathered["mpc"], k) or Gap(0.0, 0.0),
        headroom,
    )


def _gap(exact: list[list[Any]], runs: list[list[Any]], k: int) -> Gap | None:
    gaps = [
        np.abs(run[k] - due[k]) for due, run in zip(exact, runs, strict=True) if run
    ]
    if not gaps:
        return None
    return Gap(
        float(np.mean([g.mean() for g in gaps])), float(max(g.max() for g in gaps))
    )
