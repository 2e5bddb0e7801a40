"""Examples and sentences from small files."""

from pathlib import Path

import pytest

from ditto.errors import SetupError
from ditto.evaluation import (
    TASKS,
    Example,
    columns,
    read_examples,
    read_lines,
    read_texts,
)

FILES = {
    "cola": 'sentence\tlabel\nHe said "no.\t1\nThe the\u2028cat\x85sat.\t0\n',
    "sst2": "sentence\tlabel\ngood\t1\nbad\t0\n",
    "mrpc": "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n",
    "rte": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n"
    "1\tc\td\tnot_entailment\n",
    "qnli": "question\tsentence\tlabel\na?\tb\tentailment\nc?\td\tnot_entailment\n",
}
LABELS = {"cola": [1, 0], "sst2": [1, 0], "mrpc": [1, 0], "rte": [0, 1], "qnli": [0, 1]}


def written(folder: Path, text: str, name: str = "dev.tsv") -> Path:
    (folder / name).write_bytes(text.encode())
    return folder / name


@pytest.mark.parametrize("task", TASKS)
def test_every_task(tmp_path: Path, task: str) -> None:
    file = written(tmp_path, FILES[task])
    found = read_examples(task, tmp_path)
    assert found == read_examples(task, str(file))
    assert [example.label for example in found] == LABELS[task]
    assert all((e.pair is None) == (task in ("cola", "sst2")) for e in found)
    assert read_examples(task, file, 1) == found[:1]
    assert read_examples(task, file, 9) == found


def test_quotes_and_separators_are_text(tmp_path: Path) -> None:
    written(tmp_path, FILES["cola"])
    assert read_examples("cola", tmp_path) == [
        Example('He said "no.', None, 1),
        Example("The the\u2028cat\x85sat.", None, 0),
    ]


def test_pairs_keep_their_order(tmp_path: Path) -> None:
    written(tmp_path, FILES["qnli"])
    assert read_examples("qnli", tmp_path, 1) == [Example("a?", "b", 0)]


@pytest.mark.parametrize("task", ["mrpc", "rte", "qnli"])
def test_pairs_to_calibrate_with(tmp_path: Path, task: str) -> None:
    file = written(tmp_path, FILES[task])
    due = [(e.text, e.pair) for e in read_examples(task, file)]
    assert read_texts(file) == due
    assert read_texts(file, 1) == due[:1]


def test_texts_to_calibrate_with(tmp_path: Path) -> None:
    assert read_texts(written(tmp_path, FILES["sst2"])) == ["good", "bad"]
    lines = written(tmp_path, "one\n\ntwo\tthree\n", "lines.txt")
    assert read_texts(lines) == ["one", "two\tthree"]
    named = written(tmp_path, "id\ttext\tpair\n1\ta\tb\n", "named.tsv")
    assert read_texts(named) == [("a", "b")]


def test_windows_files_are_read(tmp_path: Path) -> None:
    written(tmp_path, "\ufeffsentence\tlabel\r\n\r\ngood\t1\r\n")
    assert read_examples("sst2", tmp_path) == [Example("good", None, 1)]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"dev\.tsv is empty"),
        ("sentence\tlabel\n", "holds no example"),
        ("text\tlabel\na\t1\n", "line 1: there is no column 'sentence'.*: text, label"),
        ("sentence\na\n", "line 1: there is no column 'label'"),
        ("sentence\tlabel\na\t1\n\nb\n", "line 4: there are 1 columns.* 2: sentence"),
        ("sentence\tlabel\na\tb\t1\n", "line 2: there are 3 columns"),
        ("sentence\tlabel\na\t-1\n", "line 2, column label: '-1' is none of 0, 1"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, match: str) -> None:
    written(tmp_path, text)
    with pytest.raises(SetupError, match=match):
        read_examples("cola", tmp_path)


def test_bad_arguments_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SetupError, match=r"'wnli'; there are: cola, sst2"):
        read_examples("wnli", tmp_path)
    with pytest.raises(SetupError, match=r"dev\.tsv cannot be read: No such file"):
        read_examples("cola", tmp_path)
    file = written(tmp_path, FILES["cola"])
    for read in (
        lambda n: read_examples("cola", file, n),
        lambda n: read_lines(file, n),
    ):
        with pytest.raises(SetupError, match="limit of 0"):
            read(0)
    file.write_bytes(b"sentence\tlabel\na\t1\n\xff\t0\n")
    with pytest.raises(SetupError, match="line 3: the text is not UTF-8"):
        read_examples("cola", file)
    monkeypatch.setattr(columns, "MAX_FILE", 10)
    with pytest.raises(SetupError, match="larger than 10 bytes"):
        read_examples("cola", file)


def test_lines_of_a_text(tmp_path: Path) -> None:
    file = written(tmp_path, "one\r\n\n  \n two\twords \nthree", "some.txt")
    assert read_lines(file) == ["one", " two\twords ", "three"]
    assert read_lines(file, 2) == ["one", " two\twords "]
    file.write_text(" \n\t\n")
    with pytest.raises(SetupError, match="holds no sentence"):
        read_lines(file)


@pytest.mark.parametrize("name", ["sentence", "text"])
def test_lines_of_a_column(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, f"label\t{name}\n1\tone\n0\t \n1\ttwo\n")
    assert read_lines(file) == ["one", "two"]
    assert read_lines(file, 1) == ["one"]
    file.write_text("label\tsentence1\n1\ta\n")
    with pytest.raises(SetupError, match=r"no column 'sentence'.*: label, sentence1"):
        read_lines(file)


def test_the_beginnings_of_longer_lines(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(" = A heading = \n\none two three four five\none two three\n")
    assert read_lines(file, words=3) == ["= A heading", "one two three"]
    assert read_lines(file, 1, words=4) == ["one two three four"]
    with pytest.raises(SetupError, match="no sentence"):
        read_lines(file, words=9)
