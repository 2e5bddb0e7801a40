"""A bundle runs without the checkpoint and says what the checkpoint's model says."""

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ditto.api import Phase, from_pretrained
from ditto.api.export import export_model
from ditto.client.asking import Client
from ditto.client.bundle import read_client_bundle
from ditto.errors import DittoError, PlanError, SetupError
from ditto.models import Head
from ditto.models.sentence import SentenceEncoding
from ditto.owner.bundle import Description, _write_client
from ditto.party import LocalDeployment, PartyStore, load_local_bundle
from ditto.party.bundle import load_bundle
from ditto.runtime import ThreadTrio
from ditto.sharing import Rank
from ditto.wire import Status
from ditto.wire.manifest import FORMAT
from tests.folders import TEXTS, bert_folder, gpt2_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    out = folder.parent / "bundle"
    with from_pretrained(folder, calibration=TEXTS) as model:
        export_model(model, folder, out, lengths=[16, 32], batch_sizes=[2])
    return out


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def client(bundle: Path, trio: ThreadTrio) -> Client:
    """With the checkpoint out of reach: only the bundle's folders are read."""
    load_local_bundle(trio, bundle)
    return Client(read_client_bundle(bundle / "client"), LocalDeployment(trio))


def test_a_bundle_answers_as_the_checkpoint(
    folder: Path, bundle: Path, trio: ThreadTrio
) -> None:
    got = client(bundle, trio).predict(TEXTS[:3])
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        expected = model.predict(TEXTS[:3], batch_size=2)
        exact = model.with_mode("float").predict(TEXTS[:3])
        plan = model.plans.plan(model.computation(Phase.FORWARD, 2, 16))
    status = LocalDeployment(trio).call_all(Status())[0]
    assert plan.digest in status.models["bert"]  # the very plan
    for bundled, private, float_answer in zip(got, expected, exact, strict=True):
        assert bundled.label == private.label
        assert np.abs(bundled.output - private.output).max() < 0.02
        assert np.abs(bundled.output - float_answer.output).max() < 0.02


def test_shares_are_for_their_owner_alone(bundle: Path) -> None:
    assert {path.name for path in bundle.iterdir()} == {
        "client",
        "party0",
        "party1",
        "party2",
    }
    for path in bundle.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    client_files = {path.name for path in (bundle / "client").iterdir()}
    assert not any(name.endswith((".safetensors", ".plan")) for name in client_files)


def test_each_party_takes_only_its_own_folder(bundle: Path) -> None:
    store = PartyStore()
    load_bundle(store, bundle / "party1", Rank.P1)
    with pytest.raises(PlanError, match="is for party 1, this is party 2"):
        load_bundle(PartyStore(), bundle / "party1", Rank.P2)
    with pytest.raises(DittoError, match="already"):
        load_bundle(store, bundle / "party1", Rank.P1)


@pytest.mark.parametrize("part", ["client", "party0"])
def test_what_was_changed_is_refused(bundle: Path, tmp_path: Path, part: str) -> None:
    copy = tmp_path / "copy"

    def load() -> None:
        if part == "client":
            read_client_bundle(copy)
        else:
            load_bundle(PartyStore(), copy, Rank.P0)

    shutil.copytree(bundle / part, copy)
    load()
    for file in sorted(copy.iterdir()):
        content = file.read_bytes()
        if file.name != "manifest.json":
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            with pytest.raises(PlanError, match="SHA-256"):
                load()
        file.unlink()
        with pytest.raises(PlanError):
            load()
        file.write_bytes(content)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"version": "0.0"}))
    load()  # another release wrote it, in the same format
    for form in (0, FORMAT + 1, float(FORMAT), str(FORMAT), True, None):
        (copy / "manifest.json").write_text(json.dumps(manifest | {"format": form}))
        with pytest.raises(PlanError, match="Export the model again"):
            load()
    for broken in ({"contents": {}}, {"files": {"../x": ""}}, {"contents": []}):
        (copy / "manifest.json").write_text(json.dumps(manifest | broken))
        with pytest.raises(PlanError):
            load()


def test_a_client_knows_how_texts_are_asked(folder: Path, tmp_path: Path) -> None:
    """Prompts, the length of 1 and the longest text travel with the bundle."""
    encoding = SentenceEncoding(True, 24, {"query": "the "}, "query", False)
    many = "multi_label_classification"
    description = Description(
        "m", "me", Head.FEATURE_EXTRACTION, 24, {}, False, many, encoding
    )
    _write_client(tmp_path / "client", description, [], [], folder)
    read = read_client_bundle(tmp_path / "client")
    assert (read.encoding, read.problem_type) == (encoding, many)
    assert read.max_tokens == 24


def test_a_bundle_appears_whole_or_not_at_all(
    folder: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with from_pretrained(folder, calibration=TEXTS) as model:
        with pytest.raises(SetupError, match="exists already"):
            export_model(model, folder, bundle, lengths=[16])

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("ditto.owner.bundle._write_weights", fail)
        with pytest.raises(KeyboardInterrupt):
            export_model(model, folder, tmp_path / "out", lengths=[16])
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_generates_what_the_checkpoint_does(
    tmp_path: Path, trio: ThreadTrio
) -> None:
    folder = gpt2_folder(tmp_path / "gpt2", positions=96)
    out = tmp_path / "bundle"
    with from_pretrained(folder, calibration=TEXTS) as model:
        export_model(model, folder, out, lengths=[16, 80], tokens=3)
        exact = [t.ids[0] for t in model.with_mode("float").stream(TEXTS[0], 3)]
    asked = client(out, trio)
    generated = list(asked.stream(TEXTS[0], 3))
    assert [each.token for each in generated] == exact
    # a prompt that is padded to more than the smallest cache has room for
    assert all(each.in_range for each in asked.stream("old cats " * 10, 2))
    assert LocalDeployment(trio).call_all(Status())[0].states == 0
    with pytest.raises(SetupError, match="no plan for 'forward'"):
        asked.predict(TEXTS[:1])
    with pytest.raises(SetupError, match="no room"):
        list(asked.stream(TEXTS[0], 400))
