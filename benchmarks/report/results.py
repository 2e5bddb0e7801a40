"""Results files: what they hold, how they are read, how rows belong together.

A results file is what ``python -m benchmarks.inference --json`` writes: the machine,
the versions, the command, and one row for every run.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from benchmarks.report import paper_values as paper
from ditto.errors import SetupError
from ditto.files import read_limited

MAX_FILE = 50_000_000
"""Bytes of a results file."""
ORDER = ("spu", "puma", "mpcformer", "paper", "ditto")
"""Profiles as they stand in tables and legends; others follow."""

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_Name = Annotated[str, Field(min_length=1, max_length=1000)]
_Count = Annotated[int, Field(ge=1, lt=1 << 63)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Network(_Shape):
    """What the parties were linked by, as measured: seconds and bits a second."""

    name: _Name
    backend: str = ""
    rtt: _Amount | None = None
    bandwidth: _Duration | None = None


class Cost(_Shape):
    """Bytes and rounds of all parties together, seconds of the slowest."""

    bytes: _Count
    rounds: Annotated[int, Field(ge=0, lt=1 << 63)]
    seconds: _Duration


class Part(_Shape):
    """Steps of one kind in one scope, in one ring."""

    scope: Annotated[str, Field(max_length=1000)]
    what: _Name
    ring: _Name
    bytes: _Amount
    rounds: _Amount
    seconds: _Amount


class Row(Cost):
    """One model in one profile on one network."""

    source: str = ""
    """The file that it is from, as it is called in the report."""
    model: _Name
    seq: _Count
    batch: _Count
    profile: _Name
    gelu: _Name
    network: Network
    layers: _Count
    measured_layers: _Count
    runs: tuple[_Duration, ...] = ()
    cpu_seconds: tuple[_Amount, ...] = ()
    peak_rss_mb: _Amount | None = None
    upload_bytes: _Amount | None = None
    mean_abs_error: _Amount | None = None
    mean_abs_value: _Amount | None = None
    spent: Annotated[dict[str, _Amount], Field(max_length=20)] = {}
    parts: Annotated[tuple[Part, ...], Field(max_length=100_000)] = ()
    next_token: Cost | None = None
    setting_note: Annotated[str, Field(alias="setting", max_length=1000)] = ""
    input_note: Annotated[str, Field(alias="input", max_length=1000)] = ""
    """Where a baseline's parties or input are not as ours."""

    @field_validator("network", mode="before")
    @classmethod
    def _named(cls, network: Any) -> Any:
        return {"name": network} if isinstance(network, str) else network

    @property
    def called(self) -> str:
        """The model's name, without the folders before it."""
        return Path(self.model).name or self.model

    @property
    def scaled(self) -> bool:
        """Whether fewer layers ran than the model has."""
        return self.measured_layers < self.layers

    @property
    def tokens(self) -> str:
        """Length, and batch if there is more than one text."""
        return f"{self.seq}" + (f" x {self.batch}" if self.batch > 1 else "")

    @property
    def place(self) -> tuple[str, str]:
        """File and network: seconds compare only within one."""
        return self.source, self.network.name

    @property
    def setting(self) -> tuple[str, int, int]:
        """What is computed."""
        return self.model, self.seq, self.batch

    @property
    def series(self) -> tuple[str, str]:
        """How it is computed."""
        return self.profile, self.gelu

    @property
    def method(self) -> str | None:
        """The paper's method that this one answers to."""
        return paper.method_of(self.profile, self.gelu)


class Results(_Shape):
    """A results file."""

    versions: dict[str, str]
    cpu: str
    cores: _Count
    command: str
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]


def read_all(files: Sequence[Path]) -> dict[str, Results]:
    """Results by the file's name, or by its path where names are the same."""
    if not files:
        raise SetupError("A report needs at least one results file.")
    if len({path.resolve() for path in files}) < len(files):
        raise SetupError("A results file is given twice; its rows would count twice.")
    names = [path.name for path in files]
    by_label = {}
    for path in files:
        label = path.name if names.count(path.name) == 1 else str(path)
        results = read_results(path)
        rows = tuple(r.model_copy(update={"source": label}) for r in results.rows)
        by_label[label] = results.model_copy(update={"rows": rows})
    return by_label


def read_results(path: Path) -> Results:
    """A results file, checked; errors name the file and what is wrong with it."""
    text = read_limited(path, MAX_FILE, SetupError, f"{MAX_FILE // 10**6} MB")
    try:
        results = Results.model_validate_json(text)
    except ValidationError as error:
        raise SetupError(f"{path} is no results file: {_reason(error)}.") from None
    for k, row in enumerate(results.rows):
        if row.scaled or row.measured_layers == row.layers:
            continue
        raise SetupError(
            f"{path} is no results file: rows[{k}].measured_layers is "
            f"{row.measured_layers}, more than the {row.layers} layers of the model."
        )
    return results


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong, by its place in the file."""
    first = error.errors(include_url=False)[0]
    place = ""
    for step in first["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    place = place.removeprefix(".")
    if first["type"] == "json_invalid":
        return f"it is not JSON ({first['ctx']['error']})"
    if first["type"] == "missing":
        return f"{place} is missing"
    reason = first["msg"][:1].lower() + first["msg"][1:]
    return f"in {place}, {reason}" if place else f"it holds no JSON object ({reason})"


# Grouping.


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows as tables show them: by file, network, what is computed, then how."""
    unordered = list(rows)
    places = list(dict.fromkeys(row.place for row in unordered))
    models = list(dict.fromkeys(row.model for row in unordered))

    def key(row: Row) -> tuple[int, ...]:
        what = places.index(row.place), models.index(row.model), row.seq, row.batch
        return *what, rank(row.profile), row.gelu == "quad"

    return sorted(unordered, key=key)


def rank(profile: str) -> int:
    """A profile's place in ``ORDER``."""
    name = profile.lower().split(" ", maxsplit=1)[0]
    return ORDER.index(name) if name in ORDER else len(ORDER)


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], _Key]
) -> dict[_Key, list[_Item]]:
    """Rows or parts by key, in order of appearance."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_series(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by profile and GeLU, in the order of profiles."""
    return grouped(sorted(rows, key=lambda r: rank(r.profile)), lambda r: r.series)


def base_of(row: Row, rows: Iterable[Row]) -> Row | None:
    """The ``puma`` to compare with: the same file, network and setting.

    If there are several, the first whose layers were all measured.
    """
    key = "puma", row.place, row.setting
    candidates = [r for r in rows if (r.profile.lower(), r.place, r.setting) == key]
    return min(candidates, key=lambda r: r.scaled, default=None)


def varied(rows: Sequence[Row], by: str) -> list[list[Row]]:
    """Groups of rows that differ in ``seq`` or ``batch`` and in the profile only."""
    fixed = "batch" if by == "seq" else "seq"
    groups = []
    for group in grouped(
        rows, lambda r: (r.place, r.model, getattr(r, fixed))
    ).values():
        kept = [
            row
            for same in by_series(group).values()
            for row in same
            if len({getattr(r, by) for r in same}) > 1
        ]
        groups += [kept] if kept else []
    return groups


def several_sources(rows: Iterable[Row]) -> bool:
    """Whether a heading must name the file."""
    return len({row.source for row in rows}) > 1


def place_name(row: Row, named: bool) -> str:
    """Network, and the file if there are several."""
    return f"{row.network.name}, {row.source}" if named else row.network.name


def varied_name(row: Row, by: str, named: bool) -> str:
    """What stays the same in a group of ``varied``."""
    if by == "seq":
        fixed = [] if row.batch == 1 else [f"batch {row.batch}"]
    else:
        fixed = [f"{row.seq} tokens"]
    return ", ".join([row.called, *fixed, place_name(row, named)])


def scope_names(scope: str) -> list[str]:
    """The names of a scope, outermost first, the same for all layers."""
    names = [name for name in scope.split("/") if name and "->" not in name]
    return [re.sub(r"\.\d+(?=\.|$)", ".*", name) for name in names] or ["(rest)"]
