"""What each extra weighs: on the disk, and when it is imported.

    python -m benchmarks.weight --json docs/results/weight.json

Builds the wheel and installs it with each extra into an empty environment.
"""

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import show
from ditto.errors import SetupError
from ditto.files import Json

ROOT = Path(__file__).parents[1]
IMPORTED = {
    "": "ditto",
    "client": "ditto.client.remote_client",
    "gateway": "ditto.gateway.app",
    "local": "ditto.api",
    "serve": "ditto.party.server.host",
    "train": "ditto.training.distill",
    "bench": "ditto.bench.inference",
}
"""What stands for an extra when it is imported."""
EXTRAS = tuple(IMPORTED)
_IMPORT = """
import json, resource, sys
__import__(sys.argv[1])
print(json.dumps({
    "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    "modules": len(sys.modules),
}))
"""
_TIMES = 3


def main(
    extras: Annotated[
        str, typer.Option(help="Which, separated by commas; else all.")
    ] = "",
    json_file: show.JsonFile = None,
    markdown: show.MarkdownFile = None,
) -> None:
    """Install each extra into an empty environment and weigh it."""
    chosen = show.names(extras) or EXTRAS
    for extra in chosen:
        if extra not in EXTRAS:
            raise SetupError(f"There is no extra {extra!r}; there are {EXTRAS[1:]}.")
    rows: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="ditto-weight-") as folder:
        wheel = _wheel(Path(folder))
        for extra in chosen:
            typer.echo(f"installing {extra or 'no extra'}", err=True)
            rows.append(_weighed(wheel, extra, Path(folder) / (extra or "alone")))
            show.write(json_file, rows)
    cells = [
        [
            row["extra"] or "(none)",
            f"{row['packages']}",
            f"{row['bytes'] / 1e6:,.0f}",
            f"{row['modules']:,}",
            f"{row['import_bytes'] / 1e6:,.0f}",
        ]
        for row in rows
    ]
    numbers = ["packages", "MB on disk", "modules imported", "MB of memory"]
    show.show("weight", ["extra"], numbers, cells, markdown)


def _wheel(folder: Path) -> Path:
    _run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT])
    return next(folder.glob("*.whl"))


def _weighed(wheel: Path, extra: str, folder: Path) -> Json:
    venv.create(folder, with_pip=True)
    python, before = folder / "bin" / "python", _size(folder)
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    constraints = ROOT / "constraints.txt"
    _run([python, "-m", "pip", "install", "-q", "-c", constraints, wanted])
    listed = _run([python, "-m", "pip", "list", "--format", "json"])
    runs = [
        json.loads(_run([python, "-c", _IMPORT, IMPORTED[extra]]))
        for _ in range(_TIMES)
    ]
    return {
        "extra": extra,
        "packages": len(json.loads(listed)) - 2,  # pip and setuptools
        "bytes": _size(folder) - before,
        "imported": IMPORTED[extra],
        "import_bytes": min(run["bytes"] for run in runs),
        "modules": runs[0]["modules"],
    }


def _size(folder: Path) -> int:
    return sum(f.lstat().st_size for f in folder.rglob("*") if f.is_file())


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(  # noqa: S603  (our own commands)
        [*map(str, command)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetupError(f"{command[0]} has failed: {done.stderr[-500:]}")
    return done.stdout


if __name__ == "__main__":
    show.run(main)
