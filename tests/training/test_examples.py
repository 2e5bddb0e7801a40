"""Examples and labels, from files of three forms."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ditto.errors import SetupError
from ditto.training.data import read_labelled_data
from ditto.training.examples import (
    Columns,
    LabelledText,
    find_columns,
    label_ids,
    label_names,
    read_labelled,
    read_plain_text,
)
from ditto.training.settings import TrainingSettings

ROWS = [
    ('He said "no",\tagain.', "b\u2028c", 1),
    ("two\nlines", "", 0),
    ("naïve", "d", 1),
]
HEADER = ("sentence1", "sentence2", "label")


def settings(file: Path, **told: Any) -> TrainingSettings:
    return TrainingSettings(output_dir=file.parent, train_file=file, **told)


def csv_file(folder: Path) -> Path:
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([HEADER, *ROWS])
    return folder / "rows.csv"


def json_file(folder: Path) -> Path:
    objects = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    lines = [json.dumps(each, ensure_ascii=False) for each in objects]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder / "rows.jsonl"


def test_forms_say_the_same(tmp_path: Path) -> None:
    due = [LabelledText(text, pair, str(label)) for text, pair, label in ROWS]
    for file in (csv_file(tmp_path), json_file(tmp_path)):
        columns = find_columns(settings(file), file)
        assert columns == Columns("sentence1", "sentence2", "label")
        assert read_labelled(file, columns) == due
        assert read_labelled(file, columns, 1) == due[:1]
    tabs = tmp_path / "rows.tsv"
    tabs.write_text('label\ttext\nyes\t"a\nno\tb\n')
    columns = find_columns(settings(tabs), tabs)
    expected = [LabelledText('"a', None, "yes"), LabelledText("b", None, "no")]
    assert read_labelled(tabs, columns) == expected


def test_columns_are_those_of_the_task_unless_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("question\tsentence\tlabel\tgold\na\tb\tentailment\t1\n")
    task = settings(file, task_name="qnli")
    assert find_columns(task, file) == Columns("question", "sentence", "label")
    named = settings(file, text_column="sentence", label_column="gold")
    assert find_columns(named, file) == Columns("sentence", None, "gold")


def examples(*labels: str) -> list[LabelledText]:
    return [LabelledText("a", None, label) for label in labels]


def test_labels_have_an_order() -> None:
    assert label_names(examples("10", "9", "-1", "9")) == ("-1", "9", "10")
    assert label_names(examples("no", "10", "9")) == ("10", "9", "no")
    assert label_ids(examples("b", "a"), ("a", "b"), Path("f")) == [1, 0]


def test_labels_of_the_task_and_of_the_model_come_first(tmp_path: Path) -> None:
    file = tmp_path / "rows.tsv"
    file.write_text("sentence\tlabel\na\tgood\nb\tbad\n")
    assert read_labelled_data(settings(file)).labels == ("bad", "good")
    known = ("good", "so so", "bad")
    assert read_labelled_data(settings(file), known).labels == known
    assert read_labelled_data(settings(file), ("a",)).labels == ("bad", "good")
    file.write_text("sentence1\tsentence2\tlabel\na\tb\tnot_entailment\n")
    task = settings(file, task_name="rte")
    assert read_labelled_data(task).labels == ("entailment", "not_entailment")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tsv", "sentence\tlabel\na\t1\nb\n", "line 3: there are 1 columns"),
        ("a.csv", 'sentence,label\n"a,1\n', "line 2: unexpected end of data"),
        ("a.csv", "sentence,label\na,1,2\n", "line 2: there are 3 columns"),
        ("a.jsonl", '{"sentence": "a", "label": 1}\n[]\n', "line 2: this is not a"),
        ("a.jsonl", '{"sentence": "a"}\n', "no column 'label'"),
        ("a.jsonl", '{"sentence": ["a"], "label": 1}\n', "neither a text nor"),
        ("a.jsonl", '{"sentence": "a", "label": 0.5}\n', "neither a text nor"),
        ("a.tsv", "sentence\tlabel\n", "no example after its header"),
        ("a.tsv", "", "is empty"),
        ("a.tsv", "sentence\tlabel\na\t1\nb\t1\n", "no value but '1'"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SetupError) as refused:
        read_labelled_data(settings(tmp_path / name))
    assert expected in str(refused.value)


def test_a_column_of_texts_is_no_column_of_labels() -> None:
    with pytest.raises(SetupError, match="1001 different values"):
        label_names(examples(*(str(k) for k in range(1001))))
    with pytest.raises(SetupError, match="f has a label 'c'"):
        label_ids(examples("c"), ("a", "b"), Path("f"))


def test_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    assert read_plain_text(tmp_path / "a.txt") == "one\n\ntwo"
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(SetupError, match="holds no text"):
        read_plain_text(tmp_path / "a.txt")
