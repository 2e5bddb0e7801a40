"""What the operator's guide says is so."""

import ast
import json
import re
import shlex
from pathlib import Path

import yaml

from ditto.client.reachability import CHECKS, MAX_SKEW
from ditto.wire.agreement import Agreement

from .command_line import parse

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "operate.md").read_text()
SERVER = ROOT / "src" / "ditto" / "party" / "server"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of its first row."""
    table = re.search(
        rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", GUIDE, re.M
    )
    assert table is not None
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table[1].splitlines()
    ]


def test_commands_are_understood() -> None:
    lines = re.findall(r"^\$ ditto (.*)$", GUIDE, re.M)
    lines += re.findall(r"`ditto ((?:pki|doctor|party)[^`]* [^`]*)`", GUIDE)
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:2] != ["pki", "init"]:  # named without its arguments
            assert parse(["0" if word == "j" else word for word in words])
    assert len(lines) > 8


def logged() -> set[str]:
    """The names of all events that a party's service logs."""
    names = set()
    for file in SERVER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(ast.Name("note"), [first, *_]):
                    strings = (
                        n for n in ast.walk(first) if isinstance(n, ast.Constant)
                    )
                    names |= {str(n.value) for n in strings}
    return names


def test_every_event_of_the_log_is_explained() -> None:
    explained = {row[0].strip("`") for row in rows("event")}
    assert explained == logged()


def test_every_check_of_the_doctor_is_explained() -> None:
    assert tuple(row[0] for row in rows("check")) == CHECKS
    assert MAX_SKEW == 60


def test_the_figures_are_those_of_the_files() -> None:
    figures = rows("network")
    for row, name in zip(figures, ("lan", "wan"), strict=True):
        path = ROOT / "docs" / "results" / f"estimate_minilm_{name}.json"
        answer = json.loads(path.read_text())["plans"]["answer"]
        megabytes, seconds = answer["bytes"] / 1e6, answer["seconds"]
        assert row[1:] == [
            f"{megabytes:.1f}",
            f"{answer['rounds']:.0f}",
            f"{seconds:.1f}",
            f"{answer['party_memory_bytes'] / 1e6:.0f}",
            f"{1000 * seconds / 60:.0f} minutes, {megabytes:.0f} GB",
        ]


def test_what_is_quoted_exists() -> None:
    fields = {*Agreement.model_fields}
    for part in ("limits", "versions"):
        fields |= {*Agreement.model_fields[part].annotation.model_fields}
    for name in ("queue_length", "drain_seconds", "trios", "versions"):
        assert name in fields
        assert f"`{name}" in GUIDE
    for link in re.findall(r"\]\((\.\./[^)#]+)", GUIDE):
        assert (ROOT / "docs" / "how-to" / link).exists(), link
    for block in re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.M | re.S):
        assert yaml.safe_load(block)["spec"]["secretName"] == "ditto-party-tls"
