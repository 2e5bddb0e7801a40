"""What the benchmark of weights installs is what there is to install."""

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.weight import EXTRAS, IMPORTED

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.fast


def test_every_extra_for_users_is_weighed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {"docs", "test"}
    assert {*EXTRAS} == {"", *project["optional-dependencies"]} - ours


def test_what_stands_for_an_extra_is_there() -> None:
    assert {*IMPORTED} == {*EXTRAS}
    assert all(find_spec(name) is not None for name in IMPORTED.values())
