"""Versions that documents name are those of the code."""

import tomllib
from pathlib import Path

import pytest
import yaml

from ditto.plan.plan import VERSION as PLAN
from ditto.wire.agreement import FORMAT as AGREEMENT
from ditto.wire.manifest import FORMAT as MANIFEST

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.fast


def test_what_stays_the_same_says_which_forms_there_are() -> None:
    text = (ROOT / "docs" / "explanation" / "compatibility.md").read_text()
    assert f"`version` in the plan; now {PLAN} |" in text
    assert f"`format` in its manifest; now {MANIFEST} |" in text
    assert f"`format`; now {AGREEMENT} |" in text


def test_a_citation_names_this_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
