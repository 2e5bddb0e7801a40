"""Accuracy of what the parties compute: the paper's utility table in our setting.

    python benchmarks/utility.py --data GLUE --minilm DIR --mpnet DIR

Trains a teacher for every column and its students, then measures each row: on whole
development sets in the simulator, and by three parties on as many examples as are
asked for. Every cell is written when it is done, so the command may be left and called
again; ``--tiny`` does all of it with a network of one layer, in a minute or two.

GLUE has a folder for each task with ``train.tsv`` (of QNLI a subset may do) and
``dev.tsv``; beside them, ``wikitext`` has ``wt2.train.tokens.txt``,
``wt2.valid.tokens.txt`` and ``wt2.test.tokens.txt``.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from benchmarks import show
from benchmarks.tiny_models import write_tiny_glue
from ditto.cli.progress import Stages, stages
from ditto.compiler import Profile, find_profile
from ditto.errors import SetupError
from ditto.evaluation import evenly_spaced
from ditto.files import Json
from ditto.models import load_model
from ditto.owner.plans import Plans
from ditto.training.distill import distill, lost_points
from ditto.training.distill_run import open_run
from ditto.training.finetune import RESULTS, finetune
from ditto.training.measure import Measured, Measurement, rows
from ditto.training.settings import DistillSettings, FinetuneSettings, TrainingSettings

OUT = Path("docs/results/utility.json")
PACKAGES = ("jax", "numpy", "optax", "spu")
MATTHEWS, PERPLEXITY = "matthews", "perplexity"
FROM_NOTHING = "gpt2"
"""The model that is trained here from nothing."""
BLOCKS = 64
"""Of a text, so many are measured."""


@dataclass(frozen=True)
class Column:
    """A model on a task, and how its teacher and its students are trained."""

    model: str
    task: str
    metric: str
    teacher: Json
    student: Json
    length: int
    """Tokens that all texts are padded to when they are measured."""

    @property
    def name(self) -> str:
        """As folders are called."""
        return f"{self.model}-{self.task}"

    @property
    def is_language(self) -> bool:
        """Whether texts are continued, not classified."""
        return self.metric == PERPLEXITY


@dataclass(frozen=True)
class Row:
    """A way to compute: whose weights, by which profile."""

    name: str
    profile: str | None
    """None: in float."""
    activation: str | None = None
    attention_weights: str | None = None
    gelu: str | None = None
    mpc: bool = False
    """Whether three parties compute some examples, too."""

    @property
    def student(self) -> str | None:
        """Whose weights; None are the teacher's."""
        if self.activation is None:
            return None
        return "-".join(filter(None, (self.activation, self.attention_weights)))

    def compiled_by(self) -> Profile:
        """The profile."""
        chosen = find_profile(str(self.profile))
        return chosen if self.gelu is None else chosen.replace(gelu=self.gelu)


ROWS = (
    Row("float", None),
    Row("mpcformer_quad", "spu", "quad"),
    Row("mpcformer_quad_2relu", "spu", "quad", "relu"),
    Row("puma", "puma"),
    Row("paper", "paper", gelu="puma"),
    Row("paper_quad_untrained", "paper"),
    Row("paper_quad", "paper", "quad"),
    Row("ditto", "ditto", mpc=True),
    Row("ditto_quad_untrained", "ditto", gelu="quad"),
    Row("ditto_quad", "ditto", "quad", mpc=True),
    Row("ditto_quad_square", "ditto", "quad", "square", mpc=True),
)


def _column(
    model: str,
    task: str,
    length: int,
    teacher: Json,
    student: Json,
    *,
    metric: str = "accuracy",
    samples: int | None = None,
) -> Column:
    """With what all columns have in common."""
    common: Json = {"max_seq_length": length, "max_train_samples": samples}
    rest = {"tolerance": 0, "simulator_samples": 16, "mpc_samples": 0}
    return Column(
        model,
        task,
        metric,
        {**common, **teacher},
        {**common, **rest, **student},
        length,
    )


def _told(rate: float, epochs: float) -> Json:
    """A learning rate and epochs."""
    return {"learning_rate": rate, "num_train_epochs": epochs}


_HIDDEN: Json = {"stages": ("hidden",)}
"""Small tasks are known by heart: the logits of their training texts teach nothing more
(on CoLA a stage of logits took a student from 95.7 to 94.1 % of its teacher's labels).
"""
_SHORT = {"max_seq_length": 64, "length_buckets": (8, 12, 16, 24, 32)}
_GPT2: Json = {
    "config_name": "gpt2-base",
    "config_overrides": "n_embd=256,n_layer=4,n_head=4,n_positions=128,vocab_size=8192",
    "max_steps": 1500, "per_device_train_batch_size": 16, "eval_steps": 500,
    "lr_scheduler_type": "cosine", "weight_decay": 0.1, "max_eval_samples": 256,
}  # fmt: skip
_PAIRS = {"length_buckets": (64, 128)}
COLUMNS = (
    _column(
        "minilm", "cola", 40, _told(1e-4, 3) | _SHORT | {"length_buckets": (16, 32)},
        _told(1e-4, 2) | _SHORT | _HIDDEN, metric=MATTHEWS,
    ),
    _column(
        "minilm", "sst2", 64, _told(1e-4, 1), _told(1e-4, 2) | _HIDDEN, samples=16000
    ),
    _column("minilm", "rte", 128, _told(1e-4, 3) | _PAIRS,
            _told(1e-4, 3) | _HIDDEN | _PAIRS),
    _column("minilm", "qnli", 128, _told(1e-4, 1) | _PAIRS,
            _told(1e-4, 2) | _HIDDEN | _PAIRS),
    _column(
        "mpnet", "cola", 40, _told(3e-5, 2) | _SHORT,
        _told(5e-5, 2) | _SHORT | _HIDDEN, metric=MATTHEWS,
    ),
    _column("mpnet", "sst2", 64, _told(3e-5, 1), _told(5e-5, 2) | _HIDDEN,
            samples=8000),
    _column(
        FROM_NOTHING, "wikitext", 64, _told(2e-3, 1) | _GPT2,
        _told(1e-3, 1) | {
            "max_steps": 300, "max_eval_samples": 256, "logits_learning_rate": 5e-4,
            "logits_num_train_epochs": 1, "metric_for_best_model": "agreement",
        },
        metric=PERPLEXITY,
    ),
)  # fmt: skip
TINY = (
    _column(
        "tiny", "cola", 8, _told(1e-2, 8),
        _told(1e-3, 1) | {"logits_learning_rate": 1e-3, "logits_num_train_epochs": 1},
        metric=MATTHEWS,
    ),
)  # fmt: skip


@dataclass
class Document:
    """The results so far, on disk."""

    file: Path
    rows: list[Json] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> "Document":
        """What is there, if anything is."""
        rows = json.loads(file.read_text())["rows"] if file.exists() else []
        return cls(file, rows)

    def find(self, key: Json) -> Json | None:
        """A cell, if it is done."""
        return next((row for row in self.rows if _matches(row, key)), None)

    def add(self, row: Json) -> None:
        """Another cell, written at once."""
        self.rows.append(row)
        self.write()

    def drop_others(self, column: Column, seed: int, digest: str) -> None:
        """Forget what another teacher of a column has scored."""
        place = {"model": column.model, "task": column.task, "seed": seed}
        self.rows = [
            row
            for row in self.rows
            if not _matches(row, place) or row["teacher"] == digest
        ]

    def write(self) -> None:
        """All of it."""
        document = {
            "version": version("ditto-mpc"),
            "versions": {name: version(name) for name in PACKAGES},
            "rows": self.rows,
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(document, indent=1) + "\n")


def _matches(row: Json, key: Json) -> bool:
    return all(row.get(name) == value for name, value in key.items())


@dataclass(frozen=True)
class Bench:
    """Trains and measures one column with one seed."""

    column: Column
    seed: int
    encoder: str | None
    """None: the teacher is trained from nothing."""
    data: Path
    work: Path
    shown: Stages
    mpc_examples: int
    limit: int | None = None
    """Examples in the simulator; all if None."""

    @property
    def folder(self) -> Path:
        """Where the teacher and the students are."""
        return self.work / f"{self.column.name}-{self.seed}"

    def _files(self, held_out: str = "valid") -> Json:
        """What is learnt from, and what is held out; of a text there are two."""
        place, is_language = self.data / self.column.task, self.column.is_language
        names = (
            ("*train*.txt", f"*{held_out}*.txt")
            if is_language
            else ("train*.tsv", "dev.tsv")
        )
        found = [next(iter(sorted(place.glob(name))), None) for name in names]
        if None in found:
            raise SetupError(f"{place} has no {names[0]}, or no {names[1]}.")
        return {
            "task_name": None if is_language else self.column.task,
            "train_file": found[0],
            "validation_file": found[1],
            "seed": self.seed,
        }

    def teacher(self) -> Path:
        """The teacher's folder, trained if it is not there."""
        folder = self.folder / "teacher"
        told = {**self._files(), **self.column.teacher, "output_dir": folder}
        if self.encoder is not None:
            told["model_name_or_path"] = self.encoder
        self._trained(folder, lambda: finetune(_resumable(FinetuneSettings(**told))))
        return folder

    def settings(self, row: Row, held_out: str = "valid") -> DistillSettings:
        """How the student of a row is trained."""
        told = {**self._files(held_out), **self.column.student}
        told |= {
            "output_dir": self.folder / str(row.student),
            "teacher_model_name_or_path": str(self.folder / "teacher"),
            "activation": row.activation,
            "attention_weights": row.attention_weights,
            "seed": self.seed + 41,  # another order of the data than the teacher's
        }
        return DistillSettings(**told)

    def weights(self, row: Row) -> Path:
        """The folder of a row's model, trained if it is not there."""
        teacher = self.teacher()
        if row.student is None:
            return teacher
        folder = self.folder / row.student
        self._trained(
            folder,
            lambda: distill(_resumable(self.settings(row)), on_stage=self.shown.stage),
        )
        return folder

    def _trained(self, folder: Path, train: Callable[[], object]) -> None:
        if not (folder / RESULTS).is_file():
            self.shown.stage(f"training {folder.parent.name}/{folder.name}")
            train()

    def measure(self, row: Row, mode: str) -> Measured:
        """A cell."""
        model = load_model(self.weights(row))
        run = open_run(self.settings(ROWS[1], "test"), self.shown.stage)
        measurement = Measurement(
            run.teacher,
            pairs=run.pairs,
            on_count=lambda who, k, n: self.shown.count(f"{row.name}, {who}", k, n),
        )
        every = self.limit or (BLOCKS if self.column.is_language else None)
        # one length: each is one more function to compile for every row
        examples = rows(run.validation, self.column.length, every, buckets=())
        if mode == "mpc":
            examples = [
                examples[k] for k in evenly_spaced(len(examples), self.mpc_examples)
            ]
        if mode == "float":
            return measurement.in_float(model, examples)
        plans = Plans(model, row.compiled_by(), run.samples)
        if mode == "simulate":
            return measurement.in_simulator(plans, examples, self.shown.stage)
        return measurement.by_parties(plans, examples, self.shown.stage)


Settings = TypeVar("Settings", bound=TrainingSettings)


def _resumable(settings: Settings) -> Settings:
    """Going on from a checkpoint, if there is one."""
    begun = any(settings.output_dir.glob("**/checkpoint-*"))
    return settings.model_copy(update={"resume_from_checkpoint": begun})


def measure_column(bench: Bench, chosen: Sequence[Row], document: Document) -> None:
    """All cells of a column that are not there yet, the float model's first."""
    column, seed = bench.column, bench.seed
    digest = _digest(bench.teacher())
    document.drop_others(column, seed, digest)
    place = {"model": column.model, "task": column.task, "seed": seed}
    for row in chosen:
        modes = ["float" if row.profile is None else "simulate"]
        modes += ["mpc"] if row.mpc and bench.mpc_examples else []
        for mode in modes:
            key = {**place, "row": row.name, "mode": mode}
            if document.find(key) is not None:
                continue
            bench.shown.stage(f"{column.name}: {row.name}, {mode}")
            found = bench.measure(row, mode)
            of_float = document.find({**place, "row": "float"})
            simulated = document.find({**key, "mode": "simulate"})
            document.add(
                {
                    **key,
                    "metric": column.metric,
                    "teacher": digest,
                    **_figures(found, column.metric, of_float),
                    **_likeness(found, simulated),
                }
            )


def _figures(found: Measured, metric: str, of_float: Json | None) -> Json:
    score = found.scores[metric]
    whole = score if of_float is None else of_float["score"]
    figures: Json = {
        "score": round(score, 5),
        "drop_points": round(lost_points(metric, whole, score), 3),
        "examples": found.examples,
        "agreement": round(found.scores["agreement"], 5),
        "retried": found.retried,
        "overflows": found.overflows,
    }
    if found.bytes is not None:
        figures |= {"bytes": round(found.bytes), "rounds": found.rounds}
    if found.mode == "mpc":
        figures["seconds"] = round(found.seconds or 0, 3)
        del figures["drop_points"]  # of other examples than the float model's
    if found.mode == "simulate" and metric != PERPLEXITY:
        figures["answers"] = "".join(str(label) for label in found.answers)
    return figures


def _likeness(found: Measured, simulated: Json | None) -> Json:
    """How often three parties gave the simulator's label."""
    if found.mode != "mpc" or simulated is None or "answers" not in simulated:
        return {}
    told = [int(label) for label in simulated["answers"]]
    places = evenly_spaced(len(told), found.examples)
    same = [told[k] == said for k, said in zip(places, found.answers, strict=True)]
    return {"as_simulator": sum(same)}


def _digest(folder: Path) -> str:
    weights = (folder / "model.safetensors").read_bytes()
    return hashlib.sha256(weights).hexdigest()[:16]


def table_rows(document: Document) -> list[list[str]]:
    """A line for each cell, in the order of the table."""
    order = [row.name for row in ROWS]
    cells = sorted(
        document.rows,
        key=lambda row: (row["model"], row["task"], order.index(row["row"])),
    )
    return [
        [
            f"{cell['model']} {cell['task']}",
            cell["row"],
            cell["mode"],
            f"{cell['examples']:,}",
            f"{cell['score']:.4f}",
            f"{cell['drop_points']:+.2f}" if "drop_points" in cell else "",
            f"{100 * cell['agreement']:.1f}",
            f"{cell['bytes'] / 1e6:,.1f}" if "bytes" in cell else "",
            f"{cell['rounds']:,.0f}" if "rounds" in cell else "",
        ]
        for cell in cells
    ]


def main(
    data: Annotated[
        Path | None, typer.Option(help="A folder with GLUE's, such as cola/dev.tsv.")
    ] = None,
    minilm: Annotated[
        str | None, typer.Option(help="The folder of all-MiniLM-L6-v2.")
    ] = None,
    mpnet: Annotated[
        str | None, typer.Option(help="The folder of all-mpnet-base-v2.")
    ] = None,
    only: Annotated[
        str, typer.Option(help="Columns such as minilm-cola, separated by commas.")
    ] = "",
    lines: Annotated[
        str, typer.Option("--rows", help="Rows, separated by commas; else all.")
    ] = "",
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "1",
    mpc: Annotated[
        int, typer.Option(help="Examples of each cell by three parties.", min=0)
    ] = 50,
    limit: Annotated[
        int | None, typer.Option(help="Only so many examples in the simulator.", min=1)
    ] = None,
    work: Annotated[Path, typer.Option(help="Where models are kept.")] = Path(
        "utility"
    ),
    json_file: Annotated[
        Path, typer.Option("--json", help="Results; what is there is kept.")
    ] = OUT,
    markdown: show.MarkdownFile = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="One layer and few texts, to try it.")
    ] = False,
) -> None:
    """Train teachers and students, and measure what the parties compute."""
    encoders: dict[str, str | None] = {"minilm": minilm, "mpnet": mpnet}
    columns: Sequence[Column] = COLUMNS
    if tiny:
        data, encoders["tiny"] = write_tiny_glue(work)
        columns = TINY
    if data is None:
        raise SetupError("Name GLUE's folder with --data, or try --tiny.")
    wanted = show.names(only)
    columns = [
        column
        for column in columns
        if column.model == FROM_NOTHING or encoders.get(column.model)
        if not wanted or column.name in wanted
    ]
    if not columns:
        raise SetupError(
            "There is nothing to measure: name a model with --minilm or --mpnet."
        )
    named = show.names(lines)
    chosen = [row for row in ROWS if not named or row.name in (*named, "float")]
    document = Document.read(json_file)
    with stages() as shown:
        for column in columns:
            for seed in show.names(seeds):
                encoder = encoders.get(column.model)
                bench = Bench(column, int(seed), encoder, data, work, shown, mpc, limit)
                measure_column(bench, chosen, document)
    texts, numbers = ["column", "row", "mode"], [
        "examples", "score", "drop", "as float %", "MB", "rounds",
    ]  # fmt: skip
    show.show("utility", texts, numbers, table_rows(document), markdown)


if __name__ == "__main__":
    show.run(main)
