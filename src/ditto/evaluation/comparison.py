"""A classifier on one task, by several profiles and modes, side by side."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ditto.api import Mode, Pretrained
from ditto.api.backends import SimulatedBackend
from ditto.compiler import Profile
from ditto.errors import SetupError
from ditto.evaluation.classification import Classified, classify
from ditto.evaluation.evaluate import Setting, check_labels, open_model
from ditto.evaluation.metrics import Interval, intervals, score
from ditto.evaluation.tasks import TASKS, Example, read_examples
from ditto.simulation import Headroom

MPC_EXAMPLES = 20
"""Examples that the parties run, unless more are asked for."""

OnExample = Callable[[str, int, int], None]
"""Called with who computes, how many examples are answered, and how many there are."""
_Answers = dict[int, Classified]
"""By the number of the example, from 0."""


@dataclass(frozen=True)
class Row:
    """What one profile scored in one mode."""

    profile: str
    mode: Mode
    count: int
    scores: dict[str, float]
    intervals: dict[str, Interval]
    """Between what each score lies, with a confidence of 95 %."""
    seconds: float
    """Of an example, the median."""
    as_in_float: float | None = None
    """The share of labels that are the float model's."""
    as_in_simulator: float | None = None
    largest_difference: float | None = None
    """Of the parties' logits to the simulator's."""
    headroom_bits: float | None = None
    """Of the tightest tensor."""
    bytes: float | None = None
    """That the parties sent for an example, all together, in the mean."""
    rounds: float | None = None
    labels: dict[int, int] = field(default_factory=dict)
    """What the parties answered, by the number of the example, from 1."""


@dataclass
class Comparison:
    """All rows, and what was wrong in any of them."""

    task: str
    rows: list[Row] = field(default_factory=list)
    headroom: dict[str, dict[str, Headroom]] = field(default_factory=dict)
    """The tightest tensor of every part of the model, by profile."""
    overflows: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)


def compare_modes(
    folder: str | Path,
    task: str,
    data: str | Path,
    modes: Sequence[Mode],
    profiles: Sequence[Profile],
    setting: Setting,
    *,
    limit: int | None = None,
    mpc_examples: int = MPC_EXAMPLES,
    progress: OnExample = lambda *_: None,
) -> Comparison:
    """Score a classifier in every mode with every profile.

    The parties run some of the examples, evenly spaced; the others run all.
    """
    if task not in TASKS:
        raise SetupError(f"Task {task} has no labels: evaluate it mode by mode.")
    examples = read_examples(task, data, limit)
    some = evenly_spaced(len(examples), mpc_examples)
    found = Comparison(task)
    exact: _Answers | None = None
    for profile in profiles:
        hardest: Mode = "mpc" if "mpc" in modes else "simulate"
        model = open_model(folder, hardest, replace(setting, profile=profile))
        try:
            if exact is None:
                plain = model.with_mode("float")
                check_labels(plain, task)
                exact = _ask(plain, examples, range(len(examples)), setting, progress)
                if "float" in modes:
                    found.rows.append(_row(task, "", "float", examples, exact))
                found.cut = [
                    f"example {k + 1}" for k, each in exact.items() if each.is_cut
                ]
            _compare(
                model, profile.name, modes, examples, some, exact, setting, found,
                progress,
            )  # fmt: skip
        finally:
            model.close()
    return found


def evenly_spaced(count: int, most: int) -> list[int]:
    """At most so many of the numbers below ``count``, the first among them."""
    chosen = min(count, most)
    return [k * count // chosen for k in range(chosen)]


def _compare(
    model: Pretrained,
    profile: str,
    modes: Sequence[Mode],
    examples: Sequence[Example],
    some: Sequence[int],
    exact: _Answers,
    setting: Setting,
    found: Comparison,
    progress: OnExample,
) -> None:
    """The rows of one profile."""
    if not {"simulate", "mpc"} & set(modes):
        return
    simulator = model.with_mode("simulate")
    asked = range(len(examples)) if "simulate" in modes else some
    simulated = _ask(simulator, examples, asked, setting, progress)
    bits = None
    if isinstance(simulator.backend, SimulatedBackend):
        found.headroom[profile] = simulator.backend.headroom
        bits = min((h.bits for h in simulator.backend.headroom.values()), default=None)
    if "simulate" in modes:
        row = _row(found.task, profile, "simulate", examples, simulated, exact)
        found.rows.append(replace(row, headroom_bits=bits))
    private: _Answers = {}
    if "mpc" in modes:
        private = _ask(model, examples, some, setting, progress)
        row = _row(found.task, profile, "mpc", examples, private, exact)
        gaps = (_gap(each, simulated[k]) for k, each in private.items())
        known = [gap for gap in gaps if gap is not None]
        found.rows.append(
            replace(
                row,
                as_in_simulator=_alike(private, simulated),
                largest_difference=max(known, default=None),
                headroom_bits=bits,
                bytes=_mean([each.bytes for each in private.values()]),
                rounds=_mean([each.rounds for each in private.values()]),
                labels={k + 1: each.label for k, each in private.items()},
            )
        )
    for answers in (simulated, private):
        for k, each in answers.items():
            what = f"{profile}, example {k + 1}"
            found.overflows += [f"{what}: {each.overflow}"] if each.overflow else []
            found.doubts += [f"{what}: {each.doubt}"] if each.doubt else []


def _ask(
    model: Pretrained,
    examples: Sequence[Example],
    asked: Sequence[int],
    setting: Setting,
    progress: OnExample,
) -> _Answers:
    name = type(model.backend).__name__.removesuffix("Backend").lower()
    answers = classify(
        model,
        [examples[k] for k in asked],
        setting.length,
        lambda k, n: progress(name, k, n),
    )
    return dict(zip(asked, answers, strict=True))


def _row(
    task: str,
    profile: str,
    mode: Mode,
    examples: Sequence[Example],
    answers: _Answers,
    exact: _Answers | None = None,
) -> Row:
    labels = [examples[k].label for k in answers]
    said = [each.label for each in answers.values()]
    metric = TASKS[task].metric
    return Row(
        profile,
        mode,
        len(said),
        score(metric, labels, said),
        intervals(metric, labels, said),
        statistics.median(each.seconds for each in answers.values()),
        None if exact is None else _alike(answers, exact),
    )


def _alike(answers: _Answers, others: _Answers) -> float:
    return statistics.mean(each.label == others[k].label for k, each in answers.items())


def _gap(one: Classified, other: Classified) -> float | None:
    """The largest difference of their logits."""
    if one.logits is None or other.logits is None:
        return None
    return float(np.abs(one.logits - other.logits).max())


def _mean(figures: Sequence[int | None]) -> float | None:
    counted = [figure for figure in figures if figure is not None]
    return statistics.mean(counted) if counted else None
