"""``ditto doctor --deployment``: what it shows to people and to scripts."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ditto.cli import app
from ditto.errors import SetupError
from tests.client.test_reachability import serving
from tests.deployments import Files, make_deployment
from tests.documents import check_document


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_deployment(tmp_path / "d")


def doctor(files: Files, *arguments: str) -> Result:
    mine = files.member("operator", "eve", "org-a.example")
    command = ["doctor", "--deployment", str(files.deployment), "--as", str(mine)]
    return CliRunner().invoke(app, [*command, *arguments])


def test_three_parties_that_are_well(files: Files) -> None:
    with ExitStack() as stack:
        for rank in range(3):
            stack.enter_context(serving(files, rank))
        done = doctor(files)
        scripts = doctor(files, "--json", "-")
    assert done.exit_code == 0, done.output
    assert "All well" in done.output
    assert "NO" not in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    document = json.loads(scripts.output)
    check_document("doctor --deployment", document)
    assert document["ok"] is True
    assert [party["ok"] for party in document["parties"]] == [True] * 3


def test_the_cause_of_every_no_is_named(files: Files) -> None:
    with serving(files, 0), serving(files, 2, agreement="0" * 64):
        done = doctor(files)
        scripts = doctor(files, "--json", "-")
    assert done.exit_code == 4
    said = " ".join(done.output.split())
    assert "org-b.example, port open: 127.0.0.1" in said
    assert "org-c.example, agreement: 000000000000 there" in said
    assert "All well" not in said
    check_document("doctor --deployment", json.loads(scripts.output))
    parties: list[dict[str, Any]] = json.loads(scripts.output)["parties"]
    assert [party["ok"] for party in parties] == [True, False, False]
    failed = [c for party in parties for c in party["checks"] if not c["ok"]]
    assert all(check["found"] and check["advice"] for check in failed)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["--trio", "1"], "--trio is 0 to 0"), (["--as", "/none"], "cannot be read")],
)
def test_wrong_options_are_said(
    files: Files, arguments: list[str], reason: str
) -> None:
    done = doctor(files, *arguments)
    assert isinstance(done.exception, SetupError)
    assert reason in str(done.exception)


def test_credentials_are_needed(files: Files) -> None:
    command = ["doctor", "--deployment", str(files.deployment)]
    done = CliRunner().invoke(app, command)
    assert "--deployment needs --as" in str(done.exception)
