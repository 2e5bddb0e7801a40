"""The table of families holds all that is known of them."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import ditto
from ditto.errors import CheckpointError, SetupError
from ditto.models import PRESETS, Head, preset_layers, random_model
from ditto.models.families import FAMILIES, find_family

SOURCE = Path(ditto.__file__).parent


def test_nothing_above_models_names_a_family() -> None:
    names = re.compile(f"({'|'.join((*FAMILIES, 'GPT-2'))})(?!index)", re.IGNORECASE)
    lines = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(SOURCE / "models")
        for line in path.read_text("utf-8").splitlines()
        if names.search(line)
    ]
    assert lines == []


def test_a_client_reads_the_table_without_jax() -> None:
    code = (
        "import sys, ditto.client; from ditto.models.families import FAMILIES; "
        "print(sorted({'jax', 'spu'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_row_leads_to_its_family(model_type: str) -> None:
    family = find_family(model_type)
    assert family.model_type == model_type
    assert (family.prefill is None) == (family.decode is None)
    assert family.is_decoder == (Head.TEXT_GENERATION in family.heads)


def test_random_models_have_the_size_that_is_asked_for() -> None:
    assert preset_layers("gpt2-medium") == 24
    for name in ("bert-tiny", "gpt2-tiny", "llama-tiny"):
        model = random_model(name, num_hidden_layers=1, vocab_size=50, seed=3)
        assert model.config.num_hidden_layers == len(model.params["layers"]) == 1
        assert model.config.vocab_size == 50
        again = random_model(name, num_hidden_layers=1, vocab_size=50, seed=3)
        assert jax.tree.all(jax.tree.map(np.array_equal, model.params, again.params))
        quad = model.with_config(hidden_act="quad")
        ids, mask = np.arange(6)[None], np.ones((1, 6), bool)
        one, other = (m.apply(m.params, ids, mask) for m in (model, quad))
        assert np.abs(one - other).max() > 0
    assert random_model("bert-tiny").head is Head.TEXT_CLASSIFICATION
    assert set(PRESETS) >= {"bert-base", "gpt2-base"}


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(SetupError, match="no preset 'bert-huge'"):
        random_model("bert-huge")
    with pytest.raises(CheckpointError, match="'mamba' are not supported"):
        find_family("mamba")
    with pytest.raises(SetupError, match="does not generate"):
        _ = random_model("bert-tiny").prefill
