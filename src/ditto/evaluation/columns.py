"""Files with named columns, and lines of text.

Three forms, told apart by the end of a file's name:

- ``.tsv``: a header row, fields between tabs, no quoting: a quotation mark is a
  character like any other, as in GLUE's files
- ``.csv``: a header row, fields between commas, quoted where need be
- ``.jsonl`` or ``.json``: an object per line

Columns are found by name, so others may stand between them. All text is UTF-8.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ditto.errors import SetupError
from ditto.files import read_limited

MAX_FILE = 64 << 20

Line = tuple[int, str]
Fields = tuple[int, list[str]]
"""The number of a row's line, and its fields in the columns asked for."""

_JSON = (".jsonl", ".json")


def read_columns(file: Path, names: Sequence[str]) -> Iterator[Fields]:
    """The fields of every row in the columns of these names."""
    lines = numbered_lines(file)
    match file.suffix.lower():
        case ".csv":
            return _comma_separated(file, names)
        case suffix if suffix in _JSON:
            return _json_lines(file, lines, names)
        case _:
            return tab_separated(file, lines, names)


def column_names(file: Path) -> list[str]:
    """The columns of a file, by its header or its first object."""
    first = numbered_lines(file)[0]
    match file.suffix.lower():
        case ".csv":
            return next(_rows(file))[1]
        case suffix if suffix in _JSON:
            return [*_object(file, first)]
        case _:
            return first[1].split("\t")


def tab_separated(
    file: Path, lines: Sequence[Line], names: Sequence[str]
) -> Iterator[Fields]:
    """The same of lines with tabs, the header first."""
    (first, header), *rows = lines
    columns = header.split("\t")
    hint = "A header must name them, between tabs."
    places = _places(file, first, columns, names, hint)
    for number, row in rows:
        yield number, _chosen(file, number, row.split("\t"), columns, places)


def _comma_separated(file: Path, names: Sequence[str]) -> Iterator[Fields]:
    rows = _rows(file)
    first, columns = next(rows)
    hint = "A header must name them, between commas."
    places = _places(file, first, columns, names, hint)
    for number, row in rows:
        yield number, _chosen(file, number, row, columns, places)


def _rows(file: Path) -> Iterator[Fields]:
    """The rows of a CSV file that are not empty, each with the line it ends on."""
    reader = csv.reader(io.StringIO(read_text(file), newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise SetupError(f"{file}, line {reader.line_num}: {error}.") from None


def _json_lines(
    file: Path, lines: Sequence[Line], names: Sequence[str]
) -> Iterator[Fields]:
    for line in lines:
        row, number = _object(file, line), line[0]
        _places(file, number, [*row], names, "Every line is an object with them.")
        fields = []
        for name in names:
            value = row[name]
            if not isinstance(value, str | int):
                raise SetupError(
                    f"{file}, line {number}: {name!r} is neither a text nor a whole "
                    "number."
                )
            fields.append(value if isinstance(value, str) else str(int(value)))
        yield number, fields


def _object(file: Path, line: Line) -> dict[str, object]:
    number, text = line
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise SetupError(f"{file}, line {number}: this is not a JSON object.")
    return row


def _places(
    file: Path, line: int, columns: Sequence[str], names: Sequence[str], hint: str
) -> list[int]:
    for name in names:
        if name not in columns:
            raise SetupError(
                f"{file}, line {line}: there is no column {name!r}; the columns "
                f"are: {', '.join(columns)}. {hint}"
            )
    return [columns.index(name) for name in names]


def _chosen(
    file: Path,
    line: int,
    fields: Sequence[str],
    columns: Sequence[str],
    places: Sequence[int],
) -> list[str]:
    if len(fields) != len(columns):
        raise SetupError(
            f"{file}, line {line}: there are {len(fields)} columns; the header "
            f"has {len(columns)}: {', '.join(columns)}."
        )
    return [fields[place] for place in places]


def numbered_lines(file: Path) -> list[Line]:
    """The lines that are not empty, with their numbers.

    Only a line feed ends a line: texts may hold the other separators of Unicode.
    """
    split = (line.removesuffix("\r") for line in read_text(file).split("\n"))
    lines = [(number, line) for number, line in enumerate(split, 1) if line]
    if not lines:
        raise SetupError(f"{file} is empty.")
    return lines


def read_text(file: Path) -> str:
    """A whole file of text."""
    too_large = f"{MAX_FILE} bytes: give a file with fewer lines"
    content = read_limited(file, MAX_FILE, SetupError, too_large)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SetupError(f"{file}, line {line}: the text is not UTF-8.") from None


def checked_limit(limit: int | None) -> int | None:
    """A number of lines, if one is given: 1 at least."""
    if limit is not None and limit < 1:
        raise SetupError(f"A limit of {limit}: there must be 1 line at least.")
    return limit
