"""Models on disk: whole or not at all, and what cannot be loaded is said."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ditto.errors import BusyError, NotPermittedError, RequestError, SetupError
from ditto.owner.remote import _Count, _Upload, release_of
from ditto.party.server.library import Library
from ditto.party.store import PartyStore
from ditto.plan import Plan
from ditto.sharing import Rank
from ditto.wire.catalogue import BeginModel, CommitModel, PutChunk, Release
from tests.folders import bert_folder

from .toy import compiled, export_toy

OWNER = "spiffe://acme.example/owner/acme"
OTHER = "spiffe://acme.example/owner/other"
NAME = "acme/toy:1"


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, plans: tuple[Plan, Plan]) -> Path:
    folder = tmp_path_factory.mktemp("library")
    tokenizer = bert_folder(folder / "bert", layers=1)
    return export_toy(folder / "bundle", plans, NAME, OWNER, tokenizer)


def library(folder: Path, most_models: int = 4, most_bytes: int = 1 << 30) -> Library:
    return Library(
        folder, Rank.P1, PartyStore(), most_models=most_models, most_bytes=most_bytes
    )


def announced(bundle: Path) -> BeginModel:
    release = release_of(bundle, OWNER)
    upload = _Upload(None, bundle, 1, release, _Count(lambda *_: None))  # type: ignore[arg-type]
    return upload._begin


def contents(bundle: Path) -> dict[str, bytes]:
    files = [*(bundle / "client").iterdir(), *(bundle / "party1").iterdir()]
    return {hashlib.sha256(f.read_bytes()).hexdigest(): f.read_bytes() for f in files}


def send(library: Library, bundle: Path, begin: BeginModel) -> None:
    files = contents(bundle)
    for digest, offset in library.begin(OWNER, begin).missing.items():
        piece = PutChunk(model=NAME, sha256=digest, offset=offset)
        data = np.frombuffer(files[digest][offset:], np.uint8)
        library.put(OWNER, piece, data)


def commit(library: Library, release: Release) -> None:
    library.commit(
        OWNER,
        CommitModel(model=NAME, digest=release.digest, plans=release.plans),
    )


def test_a_model_is_there_after_a_restart(bundle: Path, tmp_path: Path) -> None:
    begin, first = announced(bundle), library(tmp_path)
    with pytest.raises(RequestError, match="No upload"):
        commit(first, begin.release)
    first.begin(OWNER, begin)
    with pytest.raises(RequestError, match="not complete"):
        commit(first, begin.release)
    assert first.releases() == {}
    send(first, bundle, begin)
    again = library(tmp_path)  # before it was committed: nothing is served
    assert again.load() == {}
    assert again.releases() == {}
    commit(again, begin.release)
    commit(again, begin.release)  # once more does no harm
    third = library(tmp_path)
    assert third.load() == {}
    assert third.releases() == {NAME: begin.release}
    assert "manifest.json" in third.client_folder(NAME, begin.release.digest)
    assert third.begin(OWNER, begin).missing == {}
    with pytest.raises(NotPermittedError):
        third.retire(OTHER, NAME)
    third.retire(OWNER, NAME)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_upload_goes_on_where_it_stopped(bundle: Path, tmp_path: Path) -> None:
    begin, kept = announced(bundle), library(tmp_path)
    files = contents(bundle)
    digest, content = max(files.items(), key=lambda item: len(item[1]))
    kept.begin(OWNER, begin)
    half = len(content) // 2

    def put(offset: int, data: bytes, sha256: str = digest) -> None:
        piece = PutChunk(model=NAME, sha256=sha256, offset=offset)
        kept.put(OWNER, piece, np.frombuffer(data, np.uint8))

    put(0, content[:half])
    assert library(tmp_path).begin(OWNER, begin).missing[digest] == half
    for offset, data in (
        (0, content[:half]),  # once more
        (half + 1, content[half + 1 :]),  # a gap
        (half, content[half:] + b"x"),  # too much
    ):
        with pytest.raises(RequestError, match="does not follow"):
            put(offset, data)
    with pytest.raises(RequestError, match="does not follow"):
        put(0, b"", "0" * 64)
    with pytest.raises(RequestError, match="another SHA-256"):
        put(half, bytes(len(content) - half))
    assert library(tmp_path).begin(OWNER, begin).missing[digest] == 0
    piece = PutChunk(model=NAME, sha256=digest, offset=0)
    with pytest.raises(NotPermittedError):
        kept.put(OTHER, piece, np.zeros(1, np.uint8))


def test_what_is_announced_is_bounded(bundle: Path, tmp_path: Path) -> None:
    begin = announced(bundle)
    with pytest.raises(RequestError, match="max_model_bytes"):
        library(tmp_path, most_bytes=100).begin(OWNER, begin)
    with pytest.raises(BusyError, match=r"limits\.models"):
        library(tmp_path, most_models=0).begin(OWNER, begin)
    twice = begin.model_copy(update={"files": (*begin.files, begin.files[0])})
    with pytest.raises(RequestError, match="twice"):
        library(tmp_path).begin(OWNER, twice)
    with pytest.raises(NotPermittedError, match="whose owner is"):
        library(tmp_path).begin(OTHER, begin)


def test_a_folder_for_another_party_is_refused(bundle: Path, tmp_path: Path) -> None:
    begin = announced(bundle)
    store = Library(tmp_path, Rank.P2, PartyStore(), most_models=4, most_bytes=1 << 30)
    send(store, bundle, begin)
    with pytest.raises(RequestError, match="is not the one that release"):
        commit(store, begin.release)
    assert store.releases() == {}


def test_what_cannot_be_loaded_is_left_aside(bundle: Path, tmp_path: Path) -> None:
    """As after an upgrade: the owner publishes again, nobody else."""
    begin, kept = announced(bundle), library(tmp_path)
    send(kept, bundle, begin)
    commit(kept, begin.release)
    (folder,) = (tmp_path / "models").iterdir()
    for file in (folder / "party").glob("*.plan"):
        file.write_bytes(b"damaged")
    after = library(tmp_path)
    (error,) = after.load().values()
    assert "SHA-256" in str(error)
    assert str(tmp_path) not in str(error)
    assert after.releases() == {}
    release = begin.release.model_copy(update={"owner": OTHER})
    with pytest.raises(NotPermittedError):
        after.begin(OTHER, begin.model_copy(update={"release": release}))
    send(after, bundle, begin)
    commit(after, begin.release)
    assert library(tmp_path).load() == {}
    (folder / "release.json").write_text("{")
    assert len(library(tmp_path).load()) == 1
    (folder / "release.json").write_text(json.dumps([1]))
    assert len(library(tmp_path).load()) == 1


def test_a_store_that_others_write_to_is_refused(tmp_path: Path) -> None:
    library(tmp_path)
    (tmp_path / "models").chmod(0o777)
    with pytest.raises(SetupError, match="cannot be used"):
        library(tmp_path)
    shutil.rmtree(tmp_path)
