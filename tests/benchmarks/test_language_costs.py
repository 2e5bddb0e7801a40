"""What contexts and public prefixes cost, with random models of two layers."""

import json
import math
from pathlib import Path

import pytest

from tests.benchmarks.test_commands import benchmark
from tests.folders import llama_folder


def test_a_token_costs_more_after_more_text(tmp_path: Path) -> None:
    file, picture = tmp_path / "contexts.json", tmp_path / "contexts.svg"
    done = benchmark(
        "contexts", "--tiny", "--json", str(file), "--picture", str(picture)
    )
    assert done.returncode == 0, done.stderr
    short, long = json.loads(file.read_text())
    assert (short["context"], long["context"]) == (8, 16)
    assert 0 < short["bytes"] < long["bytes"]
    assert picture.read_text().startswith("<?xml")


def test_a_public_system_message_saves_bytes(tmp_path: Path) -> None:
    file = tmp_path / "prefix.json"
    folder = str(llama_folder(tmp_path / "llama"))
    system = ["--system", "small cats sat on the mat ,", "--questions", "1"]
    done = benchmark("public_prefix", folder, *system, "--json", str(file))
    assert done.returncode == 0, done.stderr
    private, public = json.loads(file.read_text())
    assert private["public_tokens"] == 0 < public["public_tokens"]
    assert public["private_tokens"] < private["private_tokens"]
    assert private["same"] == public["same"] == private["questions"] == 1
    assert public["first"]["bytes"] < 0.6 * private["first"]["bytes"]
    assert public["further"]["bytes"] == pytest.approx(
        private["further"]["bytes"], rel=0.1
    )


def test_no_ordinary_prompt_leaves_its_range_unnoted(tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    done = benchmark("varied_prompts", "--tiny", "--count", "20", "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["prompts"] == 20 == sum(k["prompts"] for k in found["kinds"].values())
    assert found["silent"] == found["other_token"] == 0
    assert found["same_token"] + found["noted"] >= 20
    assert "decoder.layer.1" in found["headroom_bits"]
    done = benchmark("varied_prompts", "--tiny", "--count", "5000")
    assert done.returncode == 4
    assert "name --data" in done.stderr


def test_errors_of_logits_are_taken_apart(tmp_path: Path) -> None:
    file = tmp_path / "errors.json"
    fits = ["--fit-errors", "0.03,0.003"]
    done = benchmark("logit_errors", "--tiny", *fits, "--json", str(file))
    assert done.returncode == 0, done.stderr
    coarse, fine = json.loads(file.read_text())
    for found in (coarse, fine):
        parts = [found[part] for part in ("functions", "weights", "recasts")]
        assert all(part > 0 for part in parts)
        assert found["all"] == pytest.approx(math.hypot(*parts), rel=0.5)
    assert fine["functions"] < coarse["functions"]
    assert fine["bytes"] > coarse["bytes"]
    done = benchmark("logit_errors")
    assert done.returncode == 4
    assert "take --tiny" in done.stderr
