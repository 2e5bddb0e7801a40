"""The whole story in a minute: from a checkpoint to a private answer."""

from pathlib import Path

import numpy as np

import ditto
from ditto.api.export import export_model
from ditto.client.asking import Client
from ditto.client.bundle import read_client_bundle
from ditto.party import LocalDeployment, load_local_bundle
from ditto.runtime import ThreadTrio
from tests.folders import TEXTS, bert_folder

LENGTH = 16
ERROR = 3 * ditto.PROFILES["ditto"].fit_error
"""Of the plan: one fitted function in each of two layers, and one in the pooler."""


def test_from_a_checkpoint_to_a_private_answer(tmp_path: Path) -> None:
    folder, bundle = bert_folder(tmp_path / "checkpoint"), tmp_path / "bundle"
    with ditto.from_pretrained(folder, calibration=TEXTS) as model:
        (exact,) = model.with_mode("float").predict(TEXTS[:1], pad_to=LENGTH)
        (private,) = model.predict(TEXTS[:1], pad_to=LENGTH)
        export_model(model, folder, bundle, lengths=[LENGTH])
    with ThreadTrio() as parties:
        load_local_bundle(parties, bundle)
        client = Client(read_client_bundle(bundle / "client"), LocalDeployment(parties))
        (exported,) = client.predict(TEXTS[:1])
    assert private.label == exported.label == exact.label
    assert np.abs(private.logits - exact.logits).max() <= ERROR
    assert np.abs(exported.output - exact.logits).max() <= ERROR
    assert np.abs(exported.output - private.logits).max() <= ERROR
