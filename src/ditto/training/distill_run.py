"""What a student is made from: its teacher, the data, and texts to calibrate on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ditto.analysis import estimate
from ditto.client import Tokenizer
from ditto.compiler import Profile, find_profile
from ditto.errors import SetupError
from ditto.files import Json
from ditto.models import Head, Model, from_checkpoint, read_checkpoint
from ditto.models.hub import find_folder
from ditto.owner.plans import Plans
from ditto.owner.samples import Text, TextSamples
from ditto.plan import Plan
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.data import (
    Data,
    LabelledData,
    is_plain_text,
    language_data,
    read_labelled_data,
    text_data,
)
from ditto.training.examples import read_plain_text
from ditto.training.measure import rows
from ditto.training.quantized import has_pairs, make_plans
from ditto.training.settings import DistillSettings
from ditto.training.source import checkpoint_labels

_CALIBRATION_TEXTS = 32
"""Training texts that plans are calibrated on, beside what people type otherwise."""


@dataclass(frozen=True)
class Cost:
    """What an answer costs, of all parties together."""

    tokens: int
    bytes: float
    rounds: float


@dataclass(frozen=True)
class DistillRun:
    """What all steps of a run work with."""

    settings: DistillSettings
    profile: Profile
    folder: Path
    """The teacher's."""
    teacher: Model
    student: Model
    limit: int
    """Tokens of the longest text."""
    data: Data
    validation: Batches
    samples: TextSamples
    pairs: bool
    on_stage: Callable[[str], None]

    def plans(self, model: Model) -> Plans:
        """Of a model, calibrated on the training texts."""
        return Plans(model, self.profile, self.samples)

    def examples(self, most: int | None = None) -> list[TrainingBatch]:
        """The validation examples, all or so many."""
        return rows(self.validation, self.limit, most)

    def costs(self, plans: Plans, sizes: Sequence[int]) -> tuple[Cost, ...]:
        """For each length."""
        made = make_plans(plans, sizes, pairs=self.pairs, on_stage=self.on_stage)
        return tuple(cost_of(size, made[size]) for size in sizes)


def open_run(settings: DistillSettings, on_stage: Callable[[str], None]) -> DistillRun:
    """Read what the settings name; refuse what does not go together."""
    folder = find_folder(settings.teacher_model_name_or_path)
    teacher = from_checkpoint(read_checkpoint(folder))
    tokenizer = Tokenizer.load(folder)
    limit = min(settings.max_seq_length, teacher.max_tokens)
    texts: Sequence[Text]
    if is_plain_text(settings):
        _demand_head(teacher, Head.TEXT_GENERATION)
        data = language_data(settings, tokenizer, limit)
        texts = _paragraphs(read_plain_text(settings.train_file))
    else:
        _demand_head(teacher, Head.TEXT_CLASSIFICATION)
        labelled = read_labelled_data(settings, checkpoint_labels(folder))
        data = text_data(labelled, settings, tokenizer, limit)
        texts = calibration_texts(labelled)
    if data.validation is None:
        raise SetupError(
            "A student is measured beside its teacher. Name a validation_file."
        )
    return DistillRun(
        settings,
        find_profile(settings.profile),
        folder,
        teacher,
        _student(teacher, settings),
        limit,
        data,
        data.validation,
        TextSamples(tokenizer, texts),
        has_pairs(teacher, [data.train, data.validation]),
        on_stage,
    )


def calibration_texts(data: LabelledData) -> list[Text]:
    """The first training texts: what the model will be asked is like them."""
    return [
        each.text if each.pair is None else (each.text, each.pair)
        for each in data.train[:_CALIBRATION_TEXTS]
    ]


def _demand_head(teacher: Model, head: Head) -> None:
    if teacher.head is not head:
        raise SetupError(
            f"The training file is for {head.value}, the teacher for "
            f"{teacher.head.value}."
        )


def _paragraphs(text: str) -> list[str]:
    """Some of a long text, for calibration."""
    lines = [line.strip() for line in text.splitlines()]
    long = [line for line in lines if len(line.split()) > 8] or [text]
    return long[:_CALIBRATION_TEXTS]


def _student(teacher: Model, settings: DistillSettings) -> Model:
    changes: Json = {}
    if settings.activation is not None:
        changes["hidden_act"] = settings.activation
    if settings.attention_weights is not None:
        changes["attention_weights"] = settings.attention_weights
    student = teacher.with_config(**changes)
    _ = student.config  # refuses what there is not
    return student


def cost_of(tokens: int, plan: Plan) -> Cost:
    """What a plan declares."""
    found = estimate(plan)
    return Cost(tokens, found.bytes, found.rounds)
