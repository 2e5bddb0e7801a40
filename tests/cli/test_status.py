"""``ditto status``: a row for every party."""

import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ditto.cli import app
from ditto.cli.exit_codes import ExitCode
from tests.client.test_reachability import serving
from tests.deployments import Files, make_deployment
from tests.documents import check_document


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_deployment(tmp_path / "d")


def arguments(files: Files, *more: str) -> list[str]:
    mine = files.member("operator", "eve", "org-a.example")
    return ["status", "--deployment", str(files.deployment), "--as", str(mine), *more]


def status(files: Files, *more: str) -> Result:
    return CliRunner().invoke(app, arguments(files, *more))


def test_all_are_ready(files: Files) -> None:
    with ExitStack() as stack:
        for rank in range(3):
            stack.enter_context(serving(files, rank, running=1, waiting=rank))
        done, scripts = status(files), status(files, "--json", "-")
    assert done.exit_code == 0, done.output
    assert "3 of 3 parties ready" in done.output
    assert len(re.findall(r"org-\w\.example\s+ready\s+1\s+\d\s+0/0", done.output)) == 3
    document = json.loads(scripts.output)
    check_document("status", document)
    assert document["ready"] is True
    waiting = [party["status"]["waiting"] for party in document["parties"]]
    assert waiting == [0, 1, 2]


def test_who_does_not_answer_has_a_row_too(files: Files) -> None:
    problem = "org-b.example did not answer"
    with serving(files, 0, state="starting", problem=problem), serving(files, 2):
        done, scripts = status(files), status(files, "--json", "-")
    assert done.exit_code == ExitCode.PARTIES
    said = " ".join(done.output.split())
    assert "1 of 3 parties ready" in said
    assert f"trio 0, org-a.example: {problem}" in said
    assert "org-b.example no answer" in said
    check_document("status", json.loads(scripts.output))
    parties = json.loads(scripts.output)["parties"]
    assert [party["status"] is None for party in parties] == [False, True, False]
    assert "not reachable" in parties[1]["error"]


def test_watching_ends_with_ctrl_c(files: Files) -> None:
    program = "from ditto.cli import main; main()"
    command = [sys.executable, "-c", program]
    command += arguments(files, "--watch", "--every", "0.5")
    with serving(files, 0):
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        try:
            assert "1 of 3 parties ready" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=20)
        finally:
            watching.kill()
    assert watching.returncode == 128 + signal.SIGINT


def test_watching_is_for_people(files: Files) -> None:
    done = status(files, "--watch", "--json", "-")
    assert "--watch is for people" in str(done.exception)
