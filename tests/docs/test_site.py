"""The site builds without a warning, and has every command, setting and name."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import ditto
from ditto.cli import app
from ditto.training.settings import DistillSettings
from ditto.wire.agreement import Limits
from website.documents import TYPES, documents
from website.hooks import site_path
from website.reference import pages, walk

ROOT = Path(__file__).parents[2]


def build(site: Path, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = build(tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in ("index.html", "security/index.html", "reference/commands/index.html"):
        assert (tmp_path / "site" / page).stat().st_size > 10_000
    results = tmp_path / "site" / "results"
    files = re.findall(r'href="([\w/]+\.\w+)"', (results / "index.html").read_text())
    assert "safety.json" in files
    assert [name for name in files if not (results / name).exists()] == []


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name in ("docs", "website"):
            shutil.copytree(entry, tmp_path / entry.name)
        else:
            (tmp_path / entry.name).symlink_to(entry)
    page = tmp_path / "docs" / "how-to" / "serve.md"
    page.write_text(page.read_text() + "\n[nowhere](no-such-page.md)\n")
    done = build(tmp_path / "site", tmp_path)
    assert done.returncode != 0
    assert "no-such-page.md" in done.stderr


def test_a_link_to_no_file_is_refused() -> None:
    with pytest.raises(ValueError, match="which is not there"):
        site_path("docs/no-such-page.md", None)  # type: ignore[arg-type]


def test_the_reference_has_everything() -> None:
    made = pages()
    for command in ("run", "demo", "distill", "party serve", "bench serve"):
        assert f"## ditto {command}\n" in made["reference/commands.md"]
    for model in (DistillSettings, Limits):
        for name in model.model_fields:
            assert f"| `{name}` |" in made["reference/settings.md"]
    for name in ditto.__all__:
        assert (
            name == "__version__" or f"## ditto.{name}\n" in made["reference/python.md"]
        )
    assert "See " not in made["reference/python.md"].replace("; see `stream`", "")
    assert "`OutOfRangeError` | `out-of-range` | 3 |" in made["reference/errors.md"]


def test_every_document_is_described_and_compared() -> None:
    """By a test that has a command write it, and calls ``check_document``."""
    described = documents()
    for path, command in walk(typer.main.get_command(app), ()):
        if any("--json" in option.opts for option in command.params):
            assert " ".join(path) in described
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in described:
        assert f'check_document("{name}"' in tests, name


def test_what_is_described_stands_in_the_source() -> None:
    """Fields that no test may have seen, too."""
    source = "".join(p.read_text() for p in (ROOT / "src" / "ditto").rglob("*.py"))
    for fields in documents().values():
        for field in fields:
            assert field.type.removesuffix(" or null") in TYPES, field
            key = field.keys[-1]
            if key != "[]" and "{" not in key and not key.endswith("_ms"):
                assert re.search(rf"\b{key}\b", source), field
