"""A model's plans before anything runs: compiled, explained, estimated."""

import json
from pathlib import Path

import pytest

from ditto.cli.exit_codes import ExitCode
from tests.cli.test_cli import ditto
from tests.documents import check_document
from tests.folders import bert_folder, gpt2_folder


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of a model that generates."""
    folder = tmp_path_factory.mktemp("compiled")
    model = gpt2_folder(folder / "gpt2")
    out, document = folder / "plans", folder / "plans.json"
    done = ditto(
        "compile", str(model), "--length", "8", "--out", str(out),
        "--json", str(document),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_document("compile", json.loads(document.read_text()))
    assert "further token" in done.stdout
    return out


def test_plans_are_explained_by_part_and_by_step(plans: Path) -> None:
    path = str(plans / "first-token.plan")
    parts = ditto("explain", path)
    assert parts.returncode == 0, parts.stderr
    assert max(len(line.rstrip()) for line in parts.stdout.splitlines()) <= 80
    steps = ditto("explain", path, "--steps", "--json", "-")
    check_document("explain", json.loads(steps.stdout))
    explained = json.loads(steps.stdout)["plans"]["plan"]["parts"]
    assert {"embeddings", "decoder.layer.0", "decoder.layer.1"} <= explained.keys()
    for part, costs in explained.items():
        assert part in parts.stdout
        assert f"{costs['bytes'] / 1e6:.3f}" in parts.stdout
    longer = ditto("explain", path, "--steps")
    assert len(longer.stdout) > len(parts.stdout)
    assert "decoder.layer.0/" in longer.stdout


def test_an_estimate_is_of_a_network(plans: Path) -> None:
    path = str(plans / "further-token.plan")
    costs = {}
    for network in ("lan", "wan"):
        done = ditto("estimate", path, "--network", network, "--json", "-")
        check_document("estimate", json.loads(done.stdout))
        costs[network] = json.loads(done.stdout)["plans"]["plan"]
    assert costs["lan"]["bytes"] == costs["wan"]["bytes"] > 0
    assert costs["wan"]["seconds"] > 10 * costs["lan"]["seconds"]
    waiting = costs["wan"]["waiting_seconds"] / costs["wan"]["rounds"]
    assert waiting == pytest.approx(0.0203)
    done = ditto("estimate", path, "--network", "moon")
    assert done.returncode == ExitCode.SETUP
    assert "'moon'" in done.stderr
    done = ditto("estimate", path, "--length", "8")
    assert done.returncode == ExitCode.SETUP
    assert "--length is for a model" in " ".join(done.stderr.split())


def test_an_estimate_of_an_audit_has_its_proofs(plans: Path, tmp_path: Path) -> None:
    path = str(plans / "further-token.plan")
    found = {}
    for audit in ("off", "products"):
        done = ditto("estimate", path, "--audit", audit, "--json", "-")
        check_document("estimate", json.loads(done.stdout))
        found[audit] = json.loads(done.stdout)["plans"]["plan"]
    assert found["off"]["proof_bytes"] == found["off"]["proof_rounds"] == 0
    assert found["products"]["rounds"] == (
        found["off"]["rounds"] + found["products"]["proof_rounds"]
    )
    assert found["products"]["computing_seconds"] > found["off"]["computing_seconds"]
    done = ditto("estimate", path, "--audit", "recasts")
    assert "provable recasts, and this one has" in " ".join(done.stderr.split())
    model = bert_folder(tmp_path / "bert")
    done = ditto("estimate", str(model), "--length", "8", "--audit", "recasts")
    assert done.returncode == 0, done.stderr
    assert "Proofs are of these, at most: 0." in done.stdout


def test_a_model_is_estimated_from_its_folder(tmp_path: Path) -> None:
    model = bert_folder(tmp_path / "bert")
    done = ditto("estimate", str(model), "--length", "8", "-v")
    assert done.returncode == 0, done.stderr
    assert "answer" in done.stdout
    assert "party MB" in done.stdout
    assert "calibrating and compiling" in done.stderr
    done = ditto("estimate", str(model), "--length", "513")
    assert done.returncode == ExitCode.SETUP
    assert "--length 513: the model takes 512 tokens at most." in " ".join(
        done.stderr.split()
    )
