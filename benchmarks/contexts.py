"""What one more token costs, by how much text stands before it.

\b
    python -m benchmarks.contexts MODEL_DIR --picture docs/results/contexts.svg

A plan is made for every length of cache, and what it declares is written: bytes and
rounds are exact, as tests of costs show, seconds are those of ``ditto estimate`` on a
LAN. ``--tiny`` takes a random Llama of two layers and two lengths.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks import show
from benchmarks.tiny_models import llama_folder
from ditto.analysis import LAN, estimate
from ditto.api import Phase, from_pretrained
from ditto.cli.progress import stages
from ditto.errors import SetupError
from ditto.evaluation.plot import check_matplotlib
from ditto.files import Json

OUT = Path("docs/results/contexts.json")
LENGTHS, TINY = (8, 16, 32, 64, 128, 256, 512), (8, 16)


def main(
    model_dir: Annotated[
        Path | None, typer.Argument(help="The model's folder.", exists=True)
    ] = None,
    tiny: Annotated[bool, typer.Option(help="A random model of two layers.")] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
    picture: Annotated[
        Path | None, typer.Option(help="Draw them here, as PNG or SVG.")
    ] = None,
) -> None:
    """Bytes, rounds and seconds of a token after 8 to 512 others."""
    if picture is not None:
        check_matplotlib()
    if model_dir is None and not tiny:
        raise SetupError("Name a MODEL_DIR, or take --tiny.")
    with TemporaryDirectory() as folder:
        rows = _measured(model_dir or llama_folder(Path(folder)), tiny=tiny)
    show.write(json_file, rows)
    if picture is not None:
        _draw(rows, picture)
    cells = [
        [f"{row['context']}", f"{row['bytes'] / 1e6:.2f}", f"{row['rounds']:g}",
         f"{row['seconds_lan']:.2f}"]
        for row in rows
    ]  # fmt: skip
    columns = ["positions", "MB", "rounds", "LAN s"]
    show.show("A further token, by the room in its cache", [], columns, cells, None)


def _measured(model_dir: Path, *, tiny: bool) -> list[Json]:
    rows: list[Json] = []
    with stages(verbose=True) as shown:
        model = from_pretrained(model_dir, mode="float", check=False)
        lengths = TINY if tiny else LENGTHS
        for k, length in enumerate(lengths):
            shown.count("length", k, len(lengths))
            job = model.computation(Phase.DECODE, 1, length)
            found = estimate(model.plans.plan(job, shown.stage), LAN)
            rows.append(
                {
                    "context": length,
                    "bytes": found.bytes,
                    "rounds": found.rounds,
                    "seconds_lan": found.seconds,
                }
            )
    return rows


def _draw(rows: Sequence[Json], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(1, 3)
    lengths = [row["context"] for row in rows]
    for panel, name, title, unit in zip(
        panels,
        ("bytes", "rounds", "seconds_lan"),
        ("MB of a token", "rounds of a token", "seconds of a token on a LAN"),
        (1e6, 1, 1),
        strict=True,
    ):
        panel.plot(lengths, [row[name] / unit for row in rows], "o-")
        panel.set_title(title, loc="left", fontsize="medium")
        panel.set_xlabel("positions of its cache")
        panel.set_ylim(bottom=0)
    figure.savefig(file)


if __name__ == "__main__":
    show.run(main, __doc__)
