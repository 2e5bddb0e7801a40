"""What commands share: tables, and options that mean the same everywhere."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ditto.api.local import Run
    from ditto.compiler import Profile
    from ditto.files import Json
    from ditto.owner.samples import Text as Sample
    from ditto.simulation import Headroom

ModelFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_DIR",
        help="A Hugging Face folder: config.json, safetensors, tokenizer files.",
    ),
]
ModelOrBundle = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_DIR",
        help="A Hugging Face folder: config.json, safetensors, tokenizer files; or a "
        "bundle of `ditto export`.",
    ),
]
ProfileName = Annotated[
    str, typer.Option("--profile", help="How to compute: ditto, puma, spu or paper.")
]
Gelu = Annotated[
    str | None,
    typer.Option(
        help="quad, for models distilled with it, or accurate (the default of ditto)."
    ),
]
PublicSystem = Annotated[
    str | None,
    typer.Option(
        help='What the system says in every conversation, or "" for what the chat '
        "template has it say, if that is no secret to the model's owner: its keys and "
        "values are computed once, in the clear."
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        help="Texts like those that will be asked, one per line, or a TSV with a "
        "column 'sentence', or with pairs: 'sentence1' and 'sentence2'. Without it, "
        "everyday texts of many kinds.",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="How many times further than on the calibration any value may go: 2 "
        "unless the profile says otherwise. More is safer and less exact.",
        min=1,
        max=64,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        help="What the model is for, if not as saved: text-classification, "
        "token-classification, fill-mask, question-answering, feature-extraction, "
        "pooler-output."
    ),
]
HideLength = Annotated[
    bool,
    typer.Option(
        "--hide-length",
        help="Hide how many tokens a text has; what it is padded to is public.",
    ),
]
ExportedLengths = Annotated[
    list[int] | None,
    typer.Option(
        "--length",
        help="Tokens that a text is padded to; may be repeated. 128 by default.",
        min=2,
    ),
]
BatchSizes = Annotated[
    list[int] | None,
    typer.Option(
        "--batch",
        help="Texts that are run together; may be repeated, as in --batch 1 "
        "--batch 8. 1 by default.",
        min=1,
    ),
]
MostTokens = Annotated[
    int,
    typer.Option(
        "--tokens", help="Tokens that may be generated after a prompt.", min=1
    ),
]
Pairs = Annotated[bool, typer.Option("--pairs", help="Also take pairs of texts.")]
PreparedLengths = Annotated[
    list[int] | None,
    typer.Option(
        "--length",
        help="Tokens to prepare plans for; may be repeated. 16 by default; others are "
        "prepared when they are first asked for.",
        min=2,
    ),
]
OutOfRange = Annotated[
    str,
    typer.Option(
        "--out-of-range",
        help="What to do if a value leaves its range, so that the answer may be wrong: "
        "retry with wide margins, raise an error, or return the answer all the same.",
    ),
]


Audited = Annotated[
    str,
    typer.Option(
        "--audit",
        help="What the parties prove to each other before they answer: off, products, "
        "or recasts, which are products and recasts. full is refused if there are "
        "steps that nothing proves.",
    ),
]


NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Neither read plans that were made before nor keep those made now.",
    ),
]


NoServe = Annotated[
    bool,
    typer.Option(
        "--no-serve", help="Start parties even if `ditto serve --local` keeps some."
    ),
]


NoFloat = Annotated[
    bool,
    typer.Option(
        "--no-float",
        help="Do not compute the float model's answer beside the private one.",
    ),
]


def chosen_cache(no_cache: bool) -> "Path | Literal[False]":
    """Where plans are kept, if they are; JAX keeps there what it compiles.

    To be called before JAX is imported.
    """
    from ditto.files import cache_folder
    from ditto.launch import keeping

    if no_cache:
        return False
    os.environ.update(keeping(cache_folder(), "client"))
    return cache_folder()


def chosen_profile(
    name: str, gelu: str | None, margin: float | None = None
) -> "Profile":
    """The profile of the options."""
    from ditto.compiler.profile import find_profile

    given = {"gelu": gelu, "margin": margin}
    changes = {field: value for field, value in given.items() if value is not None}
    profile = find_profile(name)
    return profile.replace(**changes) if changes else profile


def public_prefix(model_dir: Path, system: str | None) -> str | None:
    """The text that every conversation begins with, if that is public."""
    if system is None:
        return None
    from ditto.extras import require
    from ditto.models.chat_files import read_chat_files
    from ditto.models.hub import find_folder

    require("jinja2")
    from ditto.models.chat_template import system_prefix

    return system_prefix(read_chat_files(find_folder(model_dir)), system)


def calibration_texts(path: Path | None) -> "list[Sample] | None":
    """The texts of the option, if it is given."""
    from ditto.evaluation import read_texts

    return None if path is None else read_texts(path, 64)


LEFT = "a value left its range on the way to it"


def doubt_line(what: str, doubt: str) -> Text:
    """What is said of an answer that is not to be trusted."""
    return Text.assemble(("not to be trusted", "red"), f": {what}: {doubt}.")


def verdict_line(
    what: str, in_range: bool | None, *, wide: bool = False
) -> Text | None:
    """What is said of an answer of which a value had left its range."""
    if in_range is False:
        return doubt_line(what, LEFT)
    if wide:
        return Text(f"{what}: a value left its range; asked again with wide margins.")
    return None


def table(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Sequence[Sequence[object]],
) -> Table:
    """Texts to the left, numbers to the right."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    made.min_width = len(title)
    for heading in texts:
        made.add_column(heading, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))  # no cell is markup
    return made


def cost_table(runs: "Sequence[Run]", title: str) -> Table:
    """Bytes, rounds and seconds of every part of a model."""
    from ditto.plan import part_of

    found: dict[str, list[float]] = {}
    for run in runs:
        for step in run.steps:
            sums = found.setdefault(part_of(step.scope) or "(rest)", [0.0, 0.0, 0.0])
            for k, value in enumerate((step.bytes, step.rounds, step.seconds)):
                sums[k] += value
    rows = [
        [part, f"{sent / 1e6:.2f}", f"{rounds:.0f}", f"{seconds:.2f}"]
        for part, (sent, rounds, seconds) in found.items()
        if sent
    ]
    total = [sum(run.bytes for run in runs) / 1e6, sum(run.rounds for run in runs)]
    made = table(title, ["part"], ["MB", "rounds", "seconds"], rows)
    made.add_section()
    seconds = sum(run.seconds for run in runs)
    made.add_row("all", f"{total[0]:.2f}", f"{total[1]:.0f}", f"{seconds:.2f}")
    return made


def costs_as_json(runs: "Sequence[Run]", uploaded: int) -> "Json":
    """Bytes, rounds and seconds of every run of a plan, and all together."""
    return {
        "bytes": sum(run.bytes for run in runs),
        "rounds": sum(run.rounds for run in runs),
        "seconds": sum(run.seconds for run in runs),
        "uploaded_bytes": uploaded,
        "runs": [
            {
                "plan": run.digest,
                "bytes": run.bytes,
                "rounds": run.rounds,
                "seconds": run.seconds,
                "in_range": run.in_range,
            }
            for run in runs
        ],
    }


def headroom_line(headroom: "dict[str, Headroom]") -> str:
    """The tightest place, in a sentence."""
    if not headroom:
        return "headroom: not measured"
    tightest = min(headroom.values(), key=lambda h: h.bits)
    return f"headroom: {tightest.bits:.2f} bits at the tightest place: {tightest}"
