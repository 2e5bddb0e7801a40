"""What documents say to type, and the folder and environment of a new user."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".ci", "__pycache__", ".*_cache", "*.egg-info", "*.so", "tests"
)
_OTHERS = ("PYTHON", "PYTEST", "DITTO", "VIRTUAL_ENV")
"""Variables of whoever runs this that a new user does not have."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """What is typed; other lines are what is printed."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of a document that can be run."""
    text = document.read_text()
    for language, body in re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S):
        whole = re.search(r"^import (\w+ as \w+, )?(ditto|openai)", body, re.M)
        if language == "console" or (language == "python" and whole):
            yield Block(language, body)


def new_checkout(folder: Path) -> Path:
    """A copy of the repository, with an environment that has pip alone."""
    shutil.copytree(ROOT, folder, ignore=_NOT_COPIED)
    venv.create(folder / ".venv", with_pip=True)
    return folder


def new_user(checkout: Path) -> dict[str, str]:
    """The variables of somebody who has just made a checkout; pip may use what it has
    kept for others."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith(_OTHERS)}
    return mine | {
        "PATH": f"{checkout / '.venv' / 'bin'}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(checkout / "kept"),
        "PIP_CACHE_DIR": _pip_cache(),
    }


def _pip_cache() -> str:
    """Where pip keeps what it has fetched, as HOME may be another one here."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=True
    ).stdout.strip()
