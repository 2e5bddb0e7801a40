"""Is my model safe to serve in this profile?

Hundreds of texts of all lengths in the simulator say how often a value would leave its
range, and how much room is left; a few, by float, simulator and parties, layer by
layer, say where the three part and by how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ditto.api import Phase, Pretrained
from ditto.api.backends import Backend, FloatBackend, SimulatedBackend
from ditto.api.doubt import STATED_ERROR, compare, doubt_of_token
from ditto.compiler import RangeReport
from ditto.errors import CapacityError, SetupError
from ditto.evaluation.classification import Progress
from ditto.evaluation.evaluate import Setting, open_model
from ditto.evaluation.ordinary import OrdinaryText
from ditto.fixedpoint import Array
from ditto.models import Head
from ditto.simulation import Headroom

Verdict = Literal["safe", "tight", "unsafe"]

TIGHT = 0.5
"""Bits of headroom below which a model is tight: inputs half as large again overflow.
"""
AGREED = 0.9
"""The share of answers that must be the float model's; near ties may fall either way.
"""
OUTSIDE = 0.005
"""The share of texts that may leave a range."""


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
    """That went through float, simulator and parties, layer by layer."""
    parts: tuple[Part, ...]
    overflows: tuple[str, ...]
    """Those of them that left a range."""
    simulated: int
    """Texts of all lengths that went through the simulator alone."""
    outside: tuple[str, ...]
    """Those of them that left a range, or whose answer parts from the float model's."""
    agreed: float
    """The share of answers whose largest entry is the float model's, or for a language
    model one that lies as high to it."""

    tightest: Headroom | None
    """The place that came closest to the end of its range, of all texts."""
    ranges: RangeReport
    """What holds the ranges of the plan that ran layer by layer. For the owner alone:
    it tells of the weights."""

    @property
    def verdict(self) -> Verdict:
        """Whether the model can be served."""
        answer = self.parts[-1]
        if self.overflows or answer.relative > STATED_ERROR or self.agreed < AGREED:
            return "unsafe"
        if len(self.outside) > OUTSIDE * self.simulated:
            return "unsafe"
        tightest = self.tightest
        near = tightest is not None and tightest.bits < TIGHT
        return "tight" if near or self.outside else "safe"


def verify(
    folder: str | Path,
    texts: Sequence[str],
    setting: Setting,
    *,
    length: int,
    many: Sequence[OrdinaryText] = (),
    progress: Progress = lambda *_: None,
) -> Verification:
    """Run all three on texts, each padded or cut to ``length`` tokens.

    ``many`` go through the simulator besides, each in the bucket that holds it.
    """
    model = open_model(folder, "mpc", setting)
    models = {
        "float": model.with_mode("float"),
        "simulate": model.with_mode("simulate"),
        "mpc": model,
    }
    head = model.model.head
    prepared = FloatBackend(model.plans.model)  # whose states the plans' are
    traced_shape = model.computation(Phase.TRACE, 1, length)
    ranges = model.plans.ranges(traced_shape, setting.on_stage)
    gathered: dict[str, list[list[Array]]] = {name: [] for name in models}
    overflows: list[str] = []
    outside: list[str] = []
    try:
        for k, text in enumerate(texts):
            for name, one in models.items():
                try:
                    backend = prepared if name == "float" else one.backend
                    traced = _traced(one, backend, text, length)
                    if head is Head.TEXT_GENERATION:
                        ids = one.tokenizer.encode(text, max_length=length).ids
                        traced.append(_continued(one, ids, STEPS, length))
                    gathered[name].append(traced)
                except CapacityError as overflow:
                    overflows.append(f"text {k + 1}: {overflow}")
                    gathered[name].append([])
        model.close()  # what follows is the simulator's alone
        ordered = sorted(many, key=lambda t: _length(model, t))
        for k, one_of_many in enumerate(ordered):
            progress(k, len(many))
            said = _simulated(models["simulate"], models["float"], one_of_many)
            if said is not None:
                outside.append(f"{one_of_many.kind} {one_of_many.text[:40]!r}: {said}")
    finally:
        model.close()
    simulator = models["simulate"].backend
    found = simulator.headroom if isinstance(simulator, SimulatedBackend) else {}
    names = _part_names(model)
    parts = tuple(
        _part(name, k, gathered, found.get(name)) for k, name in enumerate(names)
    )
    pairs = zip(gathered["float"], gathered["mpc"], strict=True)
    agreed = [same for a, b in pairs for same in _same_choices(a[-1], b[-1], head)]
    tightest = min(found.values(), key=lambda h: h.bits, default=None)
    return Verification(
        setting.profile.name,
        len(texts),
        parts,
        tuple(overflows),
        len(many),
        tuple(outside),
        float(np.mean(agreed)),
        tightest,
        ranges,
    )


def _same_choices(exact: Array, got: Array, head: Head) -> list[bool]:
    """For each row of an answer, whether the choice is the float model's: of many
    tokens it may be another one where the float model is as good as undecided."""
    rows = exact.reshape(-1, exact.shape[-1])
    chosen = got.reshape(rows.shape).argmax(-1)
    if not head.is_language:
        return [bool(same) for same in chosen == rows.argmax(-1)]
    pairs = zip(chosen, rows, strict=True)
    return [doubt_of_token(int(token), row) is None for token, row in pairs]


def _length(model: Pretrained, text: OrdinaryText) -> int:
    return len(model.tokenizer.encode(text.text, text.pair).ids)


def _simulated(
    simulator: Pretrained, plain: Pretrained, text: OrdinaryText
) -> str | None:
    """What is wrong with the simulator's answer to a text, if anything is."""
    try:
        got, exact = (_answered(model, text) for model in (simulator, plain))
    except CapacityError as overflow:
        return str(overflow)
    return compare(got, exact, simulator.model.head)[1]


def _answered(model: Pretrained, text: OrdinaryText) -> Array:
    """The answer to a text; of a language model, the logits that follow it, and those
    that follow its last token once more."""
    if model.model.head is not Head.TEXT_GENERATION:
        return model.output_of(text.text, text.pair)
    ids = model.tokenizer.encode(text.text, max_length=model.max_tokens).ids
    length = model.bucket(len(ids))
    return _continued(model, ids or [model.tokenizer.pad_id], 1, length)


def _traced(model: Pretrained, backend: Backend, text: str, length: int) -> list[Array]:
    """The states of all layers where there is text, and the answer."""
    if not 2 <= length <= model.max_tokens:
        raise SetupError(
            f"A length of {length}: the model takes {model.max_tokens} tokens at most."
        )
    encoded = model.tokenizer.encode(text, max_length=length)
    computation = model.computation(Phase.TRACE, 1, length)
    inputs = model.inputs([encoded], length)
    states, answer = backend.run(computation, inputs).result
    count = len(encoded.ids)
    if model.model.head.is_per_token:
        answer = answer[:, :count]
    return [*(state[:, :count] for state in states), answer]


def _continued(model: Pretrained, ids: Sequence[int], steps: int, length: int) -> Array:
    """Logits of the last tokens one by one, as a text is generated: (1, tokens, V)."""
    count = max(1, len(ids) - steps)
    padded = np.zeros((1, length), np.int32)
    padded[0, :count] = ids[:count]
    prefill = model.computation(Phase.PREFILL, 1, length)
    place = np.array([count], np.int32)
    outcome = model.backend.run(prefill, (padded, place))
    found = [outcome.result]
    decode = model.computation(Phase.DECODE, 1, length)
    for token in ids[count:]:
        given = np.array([token], np.int32)
        outcome = model.backend.run(decode, (given, place), outcome.state)
        found.append(outcome.result)
        place = place + 1
    model.backend.release(outcome.state)
    return np.stack(found, 1)


def _part_names(model: Pretrained) -> list[str]:
    scope, count = model.model.family.layer_scope, model.model.config.num_hidden_layers
    layers = [f"{scope}.{k}" for k in range(count)]
    names = ["embeddings", *layers, model.model.head.value]
    return (
        [*names, "token by token"]
        if model.model.head is Head.TEXT_GENERATION
        else names
    )


def _part(
    name: str,
    k: int,
    gathered: dict[str, list[list[Array]]],
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


def _gap(exact: list[list[Array]], runs: list[list[Array]], k: int) -> Gap | None:
    gaps = [
        np.abs(run[k] - due[k]) for due, run in zip(exact, runs, strict=True) if run
    ]
    if not gaps:
        return None
    return Gap(
        float(np.mean([g.mean() for g in gaps])), float(max(g.max() for g in gaps))
    )
