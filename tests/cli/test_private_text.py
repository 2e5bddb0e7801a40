"""Private texts that do not stand on the command line."""

import io
from pathlib import Path

import pytest

from ditto.cli.private_text import read_prompt, read_texts
from ditto.errors import SetupError

pytestmark = pytest.mark.fast


def test_a_file_has_a_text_or_a_pair_on_every_line(tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text("the first\n\nthe second\n", "utf-8")
    assert read_texts(None, file, None) == (["the first", "the second"], None)
    file.write_text("a\tb\nc\td\n", "utf-8")
    assert read_texts(None, file, None) == (["a", "c"], ["b", "d"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\tb\nc\n", "1, 2 parts were found"),
        (b"a\tb\tc\n", "3 parts"),
        (b"\n \n", "has no text"),
        (b"\xff\xfe", "not a text in UTF-8"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "texts"
    file.write_bytes(content)
    with pytest.raises(SetupError, match=reason):
        read_texts(None, file, None)


def test_standard_input_is_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for texts in (["-"], None):
        monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
        assert read_texts(texts, None, None) == (["two\nlines"], None)
    monkeypatch.setattr("sys.stdin", io.StringIO("once upon\n"))
    assert read_prompt(None) == "once upon"
    assert read_prompt("here") == "here"


def test_standard_input_may_have_a_text_on_every_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\n"))
    assert read_texts(None, Path("-"), None) == (["a", "b"], None)


def test_options_that_contradict_are_refused() -> None:
    with pytest.raises(SetupError, match="not both"):
        read_texts(["a"], Path("b"), None)
    with pytest.raises(SetupError, match="second text"):
        read_texts(None, None, ["b"])
