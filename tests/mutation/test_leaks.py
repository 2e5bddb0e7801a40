"""Plants every leak of the list in a copy of the source; the tests must find it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from .leak import Leak
from .leaks import LEAKS

ROOT = Path(__file__).parents[2]
TIMEOUT = 300
"""Seconds; a leak that makes parties wait for each other fails before."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest; others mean that no test gave a verdict."""

VERDICT = re.compile(
    r"^FAILED .* - (assert|AssertionError|Failed: DID NOT RAISE)", re.M
)
"""What a test says that came to its end; a planted change must not be a mere crash."""


def run(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with another source."""
    settings = {
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "500",  # so that no verdict is cut off
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def run_tests(source: Path, tests: Sequence[str]) -> tuple[int, str]:
    names = [f"tests/{name}" for name in tests]
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = run(source, "-m", "pytest", *options, *names)
    return done.returncode, done.stdout + done.stderr


def copy_source(folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "src", folder / "src"))


def plant(leak: Leak, source: Path) -> None:
    file = source / "ditto" / leak.file
    text = file.read_text("utf-8")
    for old, new in leak.changes:
        assert text.count(old) == 1, (
            f"{leak.file} has {text.count(old)} times, not once: {old!r}. The source "
            f"has changed: mend the list in tests/mutation."
        )
        text = text.replace(old, new)
    compile(text, str(file), "exec")
    file.write_text(text, "utf-8")


def test_the_tests_pass_without_a_leak_and_use_the_copy(tmp_path: Path) -> None:
    source = copy_source(tmp_path)
    done = run(source, "-c", "import ditto; print(ditto.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(source)
    tests = sorted({name for leak in LEAKS for name in leak.killed_by})
    code, text = run_tests(source, tests)
    assert code == PASSED, text


@pytest.mark.parametrize("leak", [pytest.param(leak, id=leak.name) for leak in LEAKS])
def test_a_leak_is_found(leak: Leak, tmp_path: Path) -> None:
    source = copy_source(tmp_path)
    plant(leak, source)
    for name in leak.killed_by:
        code, text = run_tests(source, [name])
        assert code == FAILED, f"{name} does not see that {leak.because}:\n{text}"
        assert VERDICT.search(text), f"{name} failed, but saw no leak:\n{text}"


def test_names_and_leaks_are_not_listed_twice() -> None:
    assert len({leak.name for leak in LEAKS}) == len(LEAKS)
    assert len({(leak.file, leak.changes, leak.killed_by) for leak in LEAKS}) == len(
        LEAKS
    )
