"""Pictures of terminals: what is printed, in its colours, and nothing of others."""

import sys
from pathlib import Path

import pytest

from benchmarks.pictures import COLUMNS, drawn, on_a_terminal
from ditto.errors import SetupError

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

pytestmark = pytest.mark.fast


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_command_sees_a_terminal_and_its_width() -> None:
    program = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size(1)[0])"
    assert on_a_terminal(python(program)) == f"True {COLUMNS}\n"


def test_a_command_that_fails_has_no_picture() -> None:
    with pytest.raises(SetupError, match="code 3"):
        on_a_terminal(python("raise SystemExit(3)"))


def test_a_picture_has_the_command_and_what_it_printed() -> None:
    picture = drawn("ditto x", "\x1b[31mred\x1b[0m and_plain\n", "x")
    for text in ("$&#160;ditto&#160;x", ">red<", "and_plain"):
        assert text in picture


@pytest.mark.parametrize("file", sorted(PICTURES.iterdir()), ids=lambda f: f.name)
def test_pictures_are_small_and_load_nothing(file: Path) -> None:
    content = file.read_bytes()
    assert len(content) < 150_000
    assert b"@font-face" not in content
    assert b"clip-path" not in content
