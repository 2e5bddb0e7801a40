"""What a training run is told, under Hugging Face's names.

The keys of the YAML file are the flags of the command: both are the fields below, and
each field carries its help and its group. Ours are only the names that Hugging Face has
no name for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from ditto.files import Json, JsonValue

GROUP = "group"
"""Where a field's group stands in its ``json_schema_extra``."""
Scheduler = Literal["linear", "cosine", "constant", "constant_with_warmup"]
ReportTo = Literal["none", "tensorboard"]
MAX_LENGTH = 1 << 16


def option(default: object, group: str, text: str, **limits: Any) -> Any:
    """A field with its help and its group."""
    extra: Json = {GROUP: group}
    return Field(default, description=text, json_schema_extra=extra, **limits)


def _numbers(value: JsonValue) -> JsonValue:
    """A list, also of a text such as ``16,32``."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [value] if isinstance(value, int) else value


def _names(value: JsonValue) -> JsonValue:
    """A list, also of a text such as ``hidden,logits``."""
    return (
        [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    )


Stage = Literal["hidden", "logits", "quantized"]
Stages = Annotated[tuple[Stage, ...], BeforeValidator(_names)]
Buckets = Annotated[
    tuple[Annotated[int, Field(ge=2, le=MAX_LENGTH)], ...], BeforeValidator(_numbers)
]


class TrainingSettings(BaseModel):
    """What all training runs have: data, optimizer, evaluation, checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    output_dir: Path = option(
        ..., "Model", "The folder to write: checkpoints, the log, at last the model."
    )
    task_name: str | None = option(
        None,
        "Data",
        "A task of GLUE (cola, sst2, mrpc, rte, qnli): its columns, labels and metric.",
    )
    train_file: Path = option(
        ..., "Data", "TSV, CSV or JSONL with named columns; TXT for a language model."
    )
    validation_file: Path | None = option(
        None, "Data", "The same, to evaluate on; without it nothing is evaluated."
    )
    text_column: str | None = option(
        None, "Data", "The column of texts; else sentence, text or a pair's first."
    )
    text_pair_column: str | None = option(
        None, "Data", "The column of second texts, if there are pairs."
    )
    label_column: str = option("label", "Data", "The column of labels.")
    max_seq_length: int = option(
        128, "Data", "Tokens seen of a text; longer ones are cut.", ge=2, le=MAX_LENGTH
    )
    length_buckets: Buckets = option(
        (8, 16, 32, 64, 128, 256, 512),
        "Data",
        "Lengths to pad to: each is compiled once.",
        min_length=1,
    )
    max_train_samples: PositiveInt | None = option(
        None, "Data", "Only the first examples, or blocks, of the training file."
    )
    max_eval_samples: PositiveInt | None = option(
        None, "Data", "Only the first examples, or blocks, of the validation file."
    )

    learning_rate: PositiveFloat = option(
        5e-5, "Training", "The highest, after warm-up."
    )
    num_train_epochs: PositiveFloat = option(3.0, "Training", "Times to see the data.")
    max_steps: int = option(
        -1, "Training", "Steps in all, whatever the epochs; -1: by epochs.", ge=-1
    )
    per_device_train_batch_size: int = option(
        32, "Training", "Texts, or blocks of tokens, in a step.", ge=1, le=1 << 16
    )
    lr_scheduler_type: Scheduler = option(
        "linear",
        "Training",
        "After warm-up: linear or cosine to 0, constant; or constant_with_warmup.",
    )
    warmup_ratio: float = option(
        0.1, "Training", "The share of the steps in which the rate rises.", ge=0, lt=1
    )
    weight_decay: NonNegativeFloat = option(
        0.01, "Training", "Of AdamW; biases and normalisations have none."
    )
    max_grad_norm: PositiveFloat = option(
        1.0, "Training", "Longer gradients are scaled to this length."
    )
    adam_beta1: float = option(0.9, "Training", "Of AdamW.", ge=0, lt=1)
    adam_beta2: float = option(0.999, "Training", "Of AdamW.", ge=0, lt=1)
    adam_epsilon: PositiveFloat = option(1e-8, "Training", "Of AdamW.")
    seed: int = option(
        42, "Training", "Of new weights and of the order of the data.", ge=0, lt=1 << 32
    )

    eval_steps: PositiveInt | None = option(
        None, "Evaluation", "Evaluate after so many steps; else after every epoch."
    )
    per_device_eval_batch_size: int = option(
        64, "Evaluation", "Texts, or blocks, evaluated at once.", ge=1, le=1 << 16
    )
    metric_for_best_model: str | None = option(
        None,
        "Evaluation",
        "accuracy, matthews, f1, perplexity or loss; else the task's own.",
    )
    early_stopping_patience: PositiveInt | None = option(
        None, "Evaluation", "End after so many evaluations that are no better."
    )

    save_steps: PositiveInt | None = option(
        None,
        "Checkpoints and log",
        "Write a checkpoint after so many steps; else with every evaluation.",
    )
    resume_from_checkpoint: bool | Path = option(
        False,
        "Checkpoints and log",
        "true: go on from the newest in output_dir; or a checkpoint's folder.",
        union_mode="left_to_right",
    )
    logging_steps: PositiveInt = option(
        10, "Checkpoints and log", "Write a line of the log after so many steps."
    )
    report_to: ReportTo = option(
        "none", "Checkpoints and log", "tensorboard: its event files beside the log."
    )

    @model_validator(mode="after")
    def _check_steps(self) -> "TrainingSettings":
        if self.max_steps == 0:
            raise ValueError("max_steps is 0: 1 at least, or -1 to go by epochs")
        if self.early_stopping_patience and self.validation_file is None:
            raise ValueError("early_stopping_patience needs a validation_file")
        return self


REPEATABLE = (
    "output_dir", "train_file", "validation_file", "eval_steps", "save_steps",
    "per_device_eval_batch_size", "metric_for_best_model", "early_stopping_patience",
    "resume_from_checkpoint", "logging_steps", "report_to", "max_eval_samples",
    "tolerance", "simulator_samples", "mpc_samples", "teacher_model_name_or_path",
)  # fmt: skip
"""What may differ when a run is resumed: it changes no weight. The content of files and
a teacher's weights are compared by digests of their own."""


def arithmetic(settings: TrainingSettings) -> Mapping[str, JsonValue]:
    """The settings that decide the weights, as JSON."""
    return settings.model_dump(mode="json", exclude={*REPEATABLE})


class FinetuneSettings(TrainingSettings):
    """What ``ditto finetune`` is told."""

    model_name_or_path: str | None = option(
        None, "Model", "A Hugging Face folder to start from, or a name on the hub."
    )
    config_name: str | None = option(
        None, "Model", "Start from nothing: a config.json, or a preset's name."
    )
    config_overrides: str | None = option(
        None, "Model", "Changes to config_name, such as n_embd=256,n_layer=4."
    )
    tokenizer_name: Path | None = option(
        None, "Model", "A tokenizer's folder for config_name; else one is trained."
    )

    @model_validator(mode="after")
    def _check_model(self) -> "FinetuneSettings":
        if (self.model_name_or_path is None) == (self.config_name is None):
            raise ValueError(
                "name a model to start from (model_name_or_path), or a configuration "
                "to train from nothing (config_name), one of the two"
            )
        for name in ("config_overrides", "tokenizer_name"):
            if self.config_name is None and getattr(self, name) is not None:
                raise ValueError(f"{name} goes with config_name")
        return self


class DistillSettings(TrainingSettings):
    """What ``ditto distill`` is told: the student begins as the teacher."""

    teacher_model_name_or_path: str = option(
        ..., "Model", "A Hugging Face folder of the teacher, or a name on the hub."
    )
    profile: str = option("ditto", "Student", "How the parties compute the student.")
    activation: str | None = option(
        None, "Student", "The student's own activation, such as quad; else as it was."
    )
    attention_weights: str | None = option(
        None,
        "Student",
        "What attention makes of scores: softmax, square or relu; else as it was.",
    )
    fit_samples: int = option(
        512,
        "Student",
        "Training examples on which an activation is fitted to the teacher's before "
        "training begins; 0: begin with the teacher's weights.",
        ge=0,
    )
    stages: Stages = option(
        ("hidden", "logits"),
        "Student",
        "What is made alike, one after the other; quantized: logits once more, in the "
        "parties' own arithmetic.",
        min_length=1,
        max_length=3,
    )
    hidden_loss_weight: NonNegativeFloat = option(
        0.0, "Student", "How much hidden states count while logits are made alike."
    )
    logit_temperature: PositiveFloat = option(
        1.0, "Student", "What logits are divided by before they are compared."
    )
    logits_learning_rate: PositiveFloat | None = option(
        None, "Student", "learning_rate of the stage logits; else a fifth of it."
    )
    logits_num_train_epochs: PositiveFloat | None = option(
        None, "Student", "num_train_epochs of the stage logits; else the same."
    )
    quantized_learning_rate: PositiveFloat | None = option(
        None, "Student", "learning_rate of the stage quantized; else a 25th of it."
    )
    quantized_num_train_epochs: PositiveFloat = option(
        0.5, "Student", "num_train_epochs of the stage quantized."
    )

    tolerance: NonNegativeFloat = option(
        0.3,
        "Measurement",
        "Points to lose: what loses no more untrained is refused. 0: train anyway.",
    )
    simulator_samples: int = option(
        100, "Measurement", "Validation examples that the simulator computes.", ge=1
    )
    mpc_samples: int = option(
        4, "Measurement", "Validation examples that three parties compute.", ge=0
    )

    @model_validator(mode="after")
    def _check_student(self) -> "DistillSettings":
        if self.validation_file is None:
            raise ValueError(
                "a student is measured beside its teacher: name a validation_file"
            )
        if "quantized" in self.stages[:-1]:
            raise ValueError("quantized is the last of the stages")
        return self

    def of_stage(self, stage: Stage) -> "DistillSettings":
        """The settings of one stage, in a folder of its own."""
        changes: Json = {"output_dir": self.output_dir / stage}
        if stage == "logits":
            rate, epochs = self.logits_learning_rate, self.logits_num_train_epochs
            changes["learning_rate"] = rate or self.learning_rate / 5
            changes["num_train_epochs"] = epochs or self.num_train_epochs
        elif stage == "quantized":
            rate = self.quantized_learning_rate
            changes["learning_rate"] = rate or self.learning_rate / 25
            changes["num_train_epochs"] = self.quantized_num_train_epochs
        return self.model_copy(update=changes)
