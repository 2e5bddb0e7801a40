"""A model on a task, in float, in the simulator or by three parties.

Beside the task's own score stands how often the answer is the float model's, and how
close to their bounds values came: the one way to be silently wrong is an overflow, and
the simulator sees every one. With three parties it runs on the same inputs.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from ditto.api import Mode, Pretrained, from_pretrained
from ditto.api.answers import Reals
from ditto.api.backends import OnPart, OnStage, SimulatedBackend
from ditto.compiler import Profile
from ditto.errors import AnswerWarning, CapacityError, SetupError, TextCutWarning
from ditto.evaluation.classification import Progress, classify
from ditto.evaluation.metrics import cosine, score
from ditto.evaluation.tasks import TASKS, Example, read_examples, read_lines
from ditto.models import Head
from ditto.owner.samples import Text
from ditto.simulation import Headroom

FLOAT: Mode = "float"
LIKENESS = ("cosine", "greedy")
"""Tasks without labels: embeddings and texts, as alike as can be to the float model's.
"""


@dataclass
class Evaluation:
    """What a model scored."""

    task: str
    mode: Mode
    profile: str
    count: int
    scores: dict[str, float]
    headroom: dict[str, Headroom] = field(default_factory=dict)
    """The tightest tensor of every part of the model."""
    overflows: list[str] = field(default_factory=list)
    """Inputs that leave their ranges in the simulator: what the parties answer is
    wrong."""
    doubts: list[str] = field(default_factory=list)
    """Inputs whose private answer is further from the float model's than it may be."""
    cut: list[str] = field(default_factory=list)
    """Inputs that were longer than the model, or the setting, takes."""


Said = TypeVar("Said")
Asked = tuple[Said, Sequence[str | None]]
"""What a backend answered, and why it may be wrong."""


@dataclass(frozen=True)
class Setting:
    """How a model is evaluated."""

    profile: Profile
    calibration: Sequence[Text] | None = None
    length: int | None = None
    tokens: int = 20
    words: int | None = None
    batch: int = 1
    """Texts asked together, of tasks without labels."""
    head: str | None = None
    on_stage: OnStage | None = None
    on_part: OnPart | None = None


def evaluate(
    folder: str | Path,
    task: str,
    data: str | Path,
    mode: Mode,
    setting: Setting,
    *,
    limit: int | None = None,
    progress: Progress = lambda *_: None,
) -> Evaluation:
    """Score a model on the first examples of a data set."""
    if task not in (*TASKS, *LIKENESS):
        raise SetupError(
            f"There is no task {task!r}; there are {', '.join((*TASKS, *LIKENESS))}."
        )
    watched: tuple[Mode, ...] = ("simulate",) if mode == "mpc" else ()
    model = open_model(folder, mode, setting)
    others: tuple[Mode, ...] = ("float", *watched)
    backends = {other: model.with_mode(other) for other in others} | {mode: model}
    result = Evaluation(task, mode, setting.profile.name, 0, {})
    try:
        if task in TASKS:
            examples = read_examples(task, data, limit)
            check_labels(backends["float"], task)
            _classify(examples, backends, mode, setting, result, progress)
        else:
            texts = read_lines(data, limit, words=setting.words)
            measure = _compare if task == "cosine" else _continue
            measure(texts, backends, mode, setting, result, progress)
    finally:
        model.close()
    if "simulate" in backends:
        simulated = backends["simulate"].backend
        if isinstance(simulated, SimulatedBackend):
            result.headroom = simulated.headroom
    return result


def open_model(folder: str | Path, mode: Mode, setting: Setting) -> Pretrained:
    """The model of a folder, in a setting."""
    return from_pretrained(
        folder,
        profile=setting.profile,
        mode=mode,
        head=setting.head,
        calibration=setting.calibration,
        on_stage=setting.on_stage,
        on_part=setting.on_part,
    )


def check_labels(model: Pretrained, task: str) -> None:
    """Refuse a model that has not the labels of a task."""
    if model.model.head is not Head.TEXT_CLASSIFICATION:
        raise SetupError(f"Task {task} needs a model for sequence classification.")
    due = len(TASKS[task].labels)
    if model.model.config.num_labels != due:
        raise SetupError(
            f"Task {task} has {due} labels, the model {model.model.config.num_labels}."
        )


def _asked(
    backends: dict[Mode, Pretrained],
    ask: Callable[[Pretrained], Asked[Said]],
    what: str,
    result: Evaluation,
) -> dict[Mode, Said]:
    """The answers of all backends; an overflow in the simulator is noted, and what the
    parties answer if it is in doubt."""
    found: dict[Mode, Said] = {}
    for name, model in backends.items():
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", TextCutWarning)
                warnings.simplefilter("ignore", AnswerWarning)  # noted here
                found[name], doubts = ask(model)
        except CapacityError as overflow:
            result.overflows.append(f"{what}: {overflow}")
            continue
        result.doubts += [f"{what}: {doubt}" for doubt in doubts if doubt]
        if any(issubclass(each.category, TextCutWarning) for each in caught):
            result.cut += [what] if what not in result.cut else []
    return found


def _classify(
    examples: list[Example],
    backends: dict[Mode, Pretrained],
    mode: Mode,
    setting: Setting,
    result: Evaluation,
    progress: Progress,
) -> None:
    answers = {
        name: classify(model, examples, setting.length, progress)
        for name, model in backends.items()
    }
    for k in range(len(examples)):
        what = f"example {k + 1}"
        every = [found[k] for found in answers.values()]
        result.overflows += [f"{what}: {a.overflow}" for a in every if a.overflow]
        result.doubts += [f"{what}: {a.doubt}" for a in every if a.doubt]
        result.cut += [what] if every[0].is_cut else []
    labels = [example.label for example in examples]
    said, due = ([a.label for a in answers[name]] for name in (mode, FLOAT))
    result.count = len(examples)
    result.scores = score(TASKS[result.task].metric, labels, said)
    if mode != "float":
        alike = float(np.mean(np.equal(said, due)))
        result.scores |= {"as in float": alike}
        exact = score(TASKS[result.task].metric, labels, due)
        result.scores |= {f"{name} of float": value for name, value in exact.items()}


def _compare(
    texts: list[str],
    backends: dict[Mode, Pretrained],
    mode: Mode,
    setting: Setting,
    result: Evaluation,
    progress: Progress,
) -> None:
    likeness: list[float] = []
    for names, group in _groups(texts, "sentence", setting.batch, progress):

        def ask(model: Pretrained, some: list[str] = group) -> Asked[list[Reals]]:
            answers = model.predict(
                some, pad_to=setting.length, batch_size=setting.batch
            )
            values = [answer.output.reshape(-1) for answer in answers]
            return values, [answer.doubt for answer in answers]

        found = _asked(backends, ask, names, result)
        for got, due in zip(found.get(mode, []), found["float"], strict=False):
            likeness.append(float(cosine(got, due)))
    result.count = len(texts)
    if likeness:
        result.scores = {
            "least cosine": min(likeness),
            "mean cosine": float(np.mean(likeness)),
        }


def _continue(
    prompts: list[str],
    backends: dict[Mode, Pretrained],
    mode: Mode,
    setting: Setting,
    result: Evaluation,
    progress: Progress,
) -> None:
    same: list[bool] = []
    parted: list[int] = []
    for names, group in _groups(prompts, "prompt", setting.batch, progress):

        def ask(model: Pretrained, some: list[str] = group) -> Asked[list[list[int]]]:
            tokens = list(model.stream(some, setting.tokens))
            texts = [list(ids) for ids in zip(*(t.ids for t in tokens), strict=True)]
            return texts, [doubt for token in tokens for doubt in token.doubts]

        found = _asked(backends, ask, names, result)
        for got, due in zip(found.get(mode, []), found["float"], strict=False):
            same.append(got == due)
            pairs = enumerate(zip(got, due, strict=False))
            parted.append(next((i for i, (a, b) in pairs if a != b), len(due)))
    result.count = len(prompts)
    if same:
        result.scores = {
            "identical texts": float(sum(same)),
            "tokens before they part": float(np.mean(parted)),
        }


def _groups(
    texts: list[str], what: str, batch: int, progress: Progress
) -> Iterator[tuple[str, list[str]]]:
    """Texts that are asked together, and what to call them."""
    for start in range(0, len(texts), batch):
        progress(start, len(texts))
        group = texts[start : start + batch]
        last = f" to {start + len(group)}" if len(group) > 1 else ""
        yield f"{what} {start + 1}{last}", group
