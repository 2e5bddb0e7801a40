"""Three parties over mTLS: what they answer, what each of them refuses, and how."""

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from ditto.client import open_outputs
from ditto.client.connection import PartyConnection
from ditto.client.releases import Releases, common_releases, find_release
from ditto.errors import (
    BusyError,
    CertificateError,
    DeadlineError,
    DisagreementError,
    DittoError,
    MessageError,
    NotPermittedError,
    PeerError,
    RequestError,
    SetupError,
    ShareConsistencyError,
    StateLostError,
    UnknownModelError,
)
from ditto.owner import signature_of
from ditto.owner.remote import release_of
from ditto.party.server import calls
from ditto.trust import Identity
from ditto.wire import DropState, PutPlan, Status
from ditto.wire.catalogue import CommitModel, NamedRelease, as_body
from ditto.wire.chunks import MAX_MESSAGE
from ditto.wire.messages import encode
from ditto.wire.methods import (
    BEGIN_MODEL,
    CALL,
    CLIENT_FOLDER,
    COMMIT_MODEL,
    PUT_CHUNK,
    RETIRE_MODEL,
    STATUS,
)
from tests.deployments import ACME, ORGANISATIONS, OWNER, make_deployment

from .running import NAME, Service, new_id, running, turn
from .toy import W, X, export_toy, first, further

RECEIVE_SECONDS = 3.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "RECEIVE_SECONDS", RECEIVE_SECONDS)
        with running(tmp_path_factory.mktemp("service")) as service:
            yield service


# What it is for


def test_a_text_is_begun_and_continued(service: Service) -> None:
    client, start = service.client(), turn()
    answer, state = first(W, X)
    assert np.abs(service.ask(client, start) - answer).max() < 0.01
    assert (
        np.abs(service.ask(client, start.next, -X) - further(W, -X, state)[0]).max()
        < 0.02
    )
    client.call([DropState(start.conversation)] * 3)
    assert service.hosts[0].status().models[0].agreed


def test_the_log_says_who_asked_and_not_what(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ditto.party")
    start = turn()
    service.ask(service.client("dave"), start)
    service.client("dave").call([DropState(start.conversation)] * 3)
    end = time.monotonic() + 10
    while len(asked := _runs(caplog)) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    assert [each["identity"] for each in asked] == [f"spiffe://{ACME}/client/dave"] * 3
    for each in asked:
        assert each.keys() == {
            "request", "identity", "model", "plan", "seconds", "queued"
        }  # fmt: skip


def _runs(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [r for r in caplog.records if r.message == "run finished"]
    return [vars(record)["ditto_fields"] for record in records]


def test_many_ask_at_once(service: Service) -> None:
    """The queue has two places: who is refused asks again."""
    answers: list[Any] = []
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            client, start = service.client(name, seconds=60), turn()
            answers.append(service.ask(client, start))
            client.call([DropState(start.conversation)] * 3)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"c{k}",)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(answers) == 8
    for answer in answers:
        assert np.abs(answer - first(W, X)[0]).max() < 0.01


def test_the_client_folder_comes_from_the_parties(
    service: Service, tmp_path: Path
) -> None:
    alice = service.connection("client", "alice", 1)
    releases = common_releases([host.status() for host in service.hosts])
    release = find_release(releases, NAME, service.release.digest)
    opened = Releases(tmp_path).open(release, alice)
    assert opened.bundle.model == NAME
    assert opened.card.digest == service.release.digest
    with pytest.raises(DisagreementError, match="is pinned"):
        find_release(releases, NAME, "0" * 64)
    with pytest.raises(UnknownModelError, match="acme/toy:1"):
        find_release(releases, "acme/other:1", None)


def test_clients_share_a_folder_of_releases(service: Service, tmp_path: Path) -> None:
    """As processes of one user do. What one reads, no other takes away."""
    alice = service.connection("client", "alice")
    (release,) = common_releases([alice.status()] * 3).values()
    kept = tmp_path / "releases" / release.digest

    def open_at_once() -> None:
        clients = [Releases(tmp_path) for _ in range(8)]
        with ThreadPoolExecutor(len(clients)) as pool:
            opened = list(pool.map(lambda each: each.open(release, alice), clients))
        assert {each.release for each in opened} == {release}

    for _ in range(3):
        open_at_once()
        inode = kept.stat().st_ino
        open_at_once()
        assert kept.stat().st_ino == inode  # a good folder stays
        (kept / "config.json").write_text("damaged")
        open_at_once()
        assert kept.stat().st_ino != inode
        shutil.rmtree(kept)
    assert list(kept.parent.iterdir()) == []


def test_parties_that_name_different_releases_are_not_believed(
    service: Service, tmp_path: Path
) -> None:
    statuses = [host.status() for host in service.hosts]
    (model,) = statuses[1].models
    lied = model.release.model_copy(update={"client": "0" * 64})
    other = model.model_copy(update={"release": lied, "digest": lied.digest})
    statuses[1] = statuses[1].model_copy(update={"models": (other,)})
    assert common_releases(statuses) == {}
    wrong = model.model_copy(update={"release": lied})
    statuses[1] = statuses[1].model_copy(update={"models": (wrong,)})
    with pytest.raises(DisagreementError, match="wrong digest"):
        common_releases(statuses)


# Who is who


def test_an_unknown_authority_is_refused_by_tls(
    service: Service, tmp_path: Path
) -> None:
    stranger = make_deployment(tmp_path / "other")
    credentials = stranger.credentials(stranger.member("client", "alice"))
    connection = PartyConnection(service.files.agreement, credentials, 0, 0)
    with pytest.raises(PeerError, match=r"org-a\.example is not reachable"):
        connection.status(timeout=5)


def test_a_party_of_another_authority_is_refused_by_the_client(
    service: Service, tmp_path: Path
) -> None:
    """The agreement of the client has another authority for org-a."""
    stranger = make_deployment(tmp_path / "other")
    parties = [
        theirs.model_copy(update={"grpc": ours.grpc})
        for ours, theirs in zip(
            service.files.agreement.parties, stranger.agreement.parties, strict=True
        )
    ]
    agreement = stranger.agreement.model_copy(update={"parties": tuple(parties)})
    credentials = stranger.credentials(stranger.member("client", "alice"))
    with pytest.raises(PeerError, match="not reachable"):
        PartyConnection(agreement, credentials, 0, 0).status(timeout=5)


def test_one_authority_cannot_speak_for_another(service: Service) -> None:
    """org-a's authority signs a certificate for org-b's party and for acme's owner."""
    for victim in (f"spiffe://{ORGANISATIONS[1]}/party/1", OWNER):
        folder = service.files.forged(victim, ORGANISATIONS[0])
        real = service.files.credentials(service.files.member("client", "alice"))
        forged = replace(
            real,
            identity=Identity.parse(victim),
            certificate=(folder / "tls.crt").read_bytes(),
            key_path=folder / "tls.key",
        )
        connection = PartyConnection(service.files.agreement, forged, 2, 0)
        with pytest.raises(CertificateError, match=r"another authority|not signed"):
            connection.status(timeout=5)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_a_party_is_not_another_party(service: Service) -> None:
    """org-a's party answers at the address that the agreement has for org-b's."""
    parties = list(service.files.agreement.parties)
    parties[1] = parties[1].model_copy(update={"grpc": parties[0].grpc})
    agreement = service.files.agreement.model_copy(update={"parties": tuple(parties)})
    credentials = service.files.credentials(service.files.member("client", "alice"))
    with pytest.raises(PeerError, match=r"org-b\.example is not reachable"):
        PartyConnection(agreement, credentials, 1, 0).status(timeout=5)


def test_who_is_not_admitted(service: Service) -> None:
    for role, name in (("client", "eve"), ("owner", "eve")):
        domain = ORGANISATIONS[0]  # which has a party, but no clients or owners
        with pytest.raises(NotPermittedError, match="not admitted"):
            service.connection(role, name, 0, domain).status()
    assert (
        service.connection("operator", "olga", 0, ORGANISATIONS[0]).status().rank == 0
    )


@pytest.mark.parametrize(
    "method", [BEGIN_MODEL, PUT_CHUNK, COMMIT_MODEL, RETIRE_MODEL], ids=lambda m: m.name
)
def test_a_client_cannot_use_the_calls_of_owners(service: Service, method: Any) -> None:
    with pytest.raises(NotPermittedError, match=f"may not call {method.name}"):
        service.connection("client", "alice").ask(method, {"model": NAME})


def test_owners_and_operators_cannot_ask(service: Service) -> None:
    (request, *_) = service.runs(turn())
    for role, domain in (("owner", ACME), ("operator", ORGANISATIONS[0])):
        name = "acme" if role == "owner" else "olga"
        asking = service.connection(role, name, 0, domain)
        with pytest.raises(NotPermittedError, match="may not call Call"):
            list(asking.call(CALL, [encode(request)], timeout=5))
    operator = service.connection("operator", "olga", 0, ORGANISATIONS[0])
    with pytest.raises(NotPermittedError):
        operator.ask(CLIENT_FOLDER, {})


def test_a_client_cannot_put_plans(service: Service) -> None:
    for request in (PutPlan(NAME, b"plan"), Status()):
        with pytest.raises(NotPermittedError, match="may not ask for"):
            service.one(request)  # type: ignore[arg-type]


# Models


def test_another_owner_cannot_touch_a_model(service: Service, tmp_path: Path) -> None:
    other = service.publisher("other")
    with pytest.raises(NotPermittedError, match="belongs to another owner"):
        other.retire(NAME)
    folder = service.files.folder / "bert"
    mine = export_toy(tmp_path / "b", service.plans, NAME, other.owner, folder)
    with pytest.raises(NotPermittedError, match="belongs to another owner"):
        other.publish(mine)
    commit = CommitModel(
        model=NAME, digest=service.release.digest, plans=service.release.plans
    )
    with pytest.raises(NotPermittedError, match="belongs to another owner"):
        service.connection("owner", "other").ask(COMMIT_MODEL, as_body(commit))
    with pytest.raises(NotPermittedError, match="whose owner is"):
        begin_as(service, "other", service.bundle)


def begin_as(service: Service, name: str, bundle: Path) -> Any:
    """Announce a bundle of acme's as another owner."""
    release = release_of(bundle, OWNER)
    file = {"path": "client/manifest.json", "sha256": release.client, "size": 1}
    body = {"release": release.model_dump(mode="json"), "files": [file]}
    return service.connection("owner", name).ask(BEGIN_MODEL, body)


def test_a_release_never_changes(service: Service, tmp_path: Path) -> None:
    """The same again does no harm, another under the same name is refused."""
    assert service.owner.publish(service.bundle) == service.release
    folder = service.files.folder / "bert"
    changed = export_toy(tmp_path / "b", service.plans, NAME, OWNER, folder)
    with pytest.raises(RequestError, match="A release never changes"):
        service.owner.publish(changed)


def test_an_upload_is_resumed_and_checked(service: Service, tmp_path: Path) -> None:
    name = "acme/toy:2"
    folder = service.files.folder / "bert"
    bundle = export_toy(tmp_path / "b", service.plans, name, OWNER, folder)
    (file,) = (bundle / "party1").glob("*.safetensors")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DittoError):  # other bytes than its manifest says
        service.owner.publish(bundle)
    with pytest.raises(UnknownModelError):
        service.one(replace(service.runs(turn())[0], model=name, request_id=new_id()))
    file.write_bytes(content)
    service.owner.publish(bundle)
    assert all(
        {m.release.name for m in host.status().models if m.agreed} == {NAME, name}
        for host in service.hosts
    )
    service.owner.retire(name)
    with pytest.raises(UnknownModelError):
        service.owner.retire(name)
    with pytest.raises(UnknownModelError, match=r"is not served|has no model"):
        service.connection("client", "alice").ask(
            CLIENT_FOLDER, as_body(NamedRelease(model=name, digest="0" * 64))
        )


# Runs


def test_a_state_belongs_to_who_began_it(service: Service) -> None:
    alice, bob, start = service.client("alice"), service.client("bob"), turn()
    service.ask(alice, start)
    with pytest.raises(StateLostError):
        service.ask(bob, start.next, -X)
    bob.call([DropState(start.conversation)] * 3)  # says nothing, and does nothing
    service.ask(alice, start.next, -X)
    alice.call([DropState(start.conversation)] * 3)


def test_states_have_a_quota(service: Service) -> None:
    client = service.client("carol", seconds=4)
    begun = [turn(), turn()]
    for each in begun:
        service.ask(client, each)
    with pytest.raises(BusyError, match="2 is the most"):
        service.ask(client, turn())
    for each in begun:
        client.call([DropState(each.conversation)] * 3)


def test_a_request_id_is_used_once(service: Service) -> None:
    client, start = service.client(), turn()
    used: list[str] = []
    fresh = client._fresh

    def note(requests: Any) -> Any:
        made = fresh(requests)
        used.extend(request.request_id for request in made)  # type: ignore[attr-defined]
        return made

    client._fresh = note  # type: ignore[method-assign]
    service.ask(client, start)
    (again,) = {*used}
    for rank in range(3):
        replayed = replace(service.runs(turn())[rank], request_id=again)
        with pytest.raises(RequestError, match="used before"):
            service.one(replayed, rank)
    for wrong in ("", "short", "x" * 65, "no/letters/and/digits"):
        with pytest.raises(RequestError, match="16 to 64"):
            service.one(replace(service.runs(turn())[0], request_id=wrong))
    client._fresh = fresh  # type: ignore[method-assign]
    client.call([DropState(start.conversation)] * 3)


def test_what_does_not_fit_the_plan_is_refused(service: Service) -> None:
    good = replace(service.runs(turn())[0], request_id=new_id())
    cut = {name: array[:3] for name, array in good.arrays.items()}
    wide = {name: array.astype(np.uint8) for name, array in good.arrays.items()}
    for changed in (
        replace(good, arrays=cut),
        replace(good, arrays=wide),
        replace(good, arrays={}),
        replace(good, plan="0" * 64),
        replace(good, turn=None),
    ):
        with pytest.raises(DittoError) as caught:
            service.one(replace(changed, request_id=new_id()))
        assert not isinstance(caught.value, PeerError), caught.value
    with pytest.raises(UnknownModelError, match="acme/toy:1"):
        service.one(replace(good, model="acme/none:1", request_id=new_id()))


def test_parties_that_were_told_different_things_do_not_run(service: Service) -> None:
    client = service.client(seconds=10)
    asked = service.runs(turn())
    asked[1] = replace(asked[1], turn=turn())
    with pytest.raises(DisagreementError):
        client.call(asked)
    x = -X
    asked = service.runs(turn())
    asked[2] = service.runs(asked[2].turn or turn(), x)[2]  # shares of another text
    with pytest.raises(DisagreementError):
        client.call(asked)
    start = turn()  # the links have not suffered
    assert np.abs(service.ask(client, start) - first(W, X)[0]).max() < 0.01
    client.call([DropState(start.conversation)] * 3)


def test_one_party_alone_runs_nothing(service: Service) -> None:
    request = replace(service.runs(turn())[0], request_id=new_id())
    started = time.monotonic()
    with pytest.raises(DeadlineError):
        service.one(request, timeout=2.0)
    assert time.monotonic() - started < 4
    client, start = service.client(), turn()
    service.ask(client, start)
    client.call([DropState(start.conversation)] * 3)


def test_a_wrong_share_is_caught_by_the_client(service: Service) -> None:
    client, start = service.client(), turn()
    replies = client.call(service.runs(start))
    client.call([DropState(start.conversation)] * 3)
    signature = signature_of(service.plans[0])
    for name, array in replies[1].arrays.items():
        if name == "range":
            continue
        wrong = dict(replies[1].arrays)
        wrong[name] = array ^ np.ones_like(array)
        sent = [replies[0].arrays, wrong, replies[2].arrays]
        with pytest.raises((MessageError, ShareConsistencyError)):
            open_outputs(signature, sent)


# Bytes


def raw(
    service: Service, messages: Callable[[], Iterator[bytes]], timeout: float
) -> Any:
    alice = service.connection("client", "alice")
    return list(alice._method(CALL)(messages(), timeout=timeout))


def code_of(
    service: Service, *messages: bytes, timeout: float = 10.0
) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        raw(service, lambda: iter(messages), timeout)
    return caught.value.code().name, caught.value.details()


def test_streams_that_are_no_frames(service: Service) -> None:
    for messages, said in (
        ((), "takes one frame"),
        ((b"",), "before its request was complete|no part of a frame"),
        ((b"\x02x",), "no part of a frame"),
        ((b"\x00abc",), "middle of a frame"),
        ((b"\x01abc",), "bytes that its header does not list"),
        ((b"\x01" + (2).to_bytes(8, "little") + b"{}",), "header of a frame"),
        ((b"\x01" + (1 << 40).to_bytes(8, "little"),), "exceeds"),
        ((b"\x00" + bytes(MAX_MESSAGE - 1),) * 4, "exceeds the 1048576 bytes"),
    ):
        code, text = code_of(service, *messages)
        assert code == "INVALID_ARGUMENT", (messages and messages[0][:9], text)
        assert re.search(said, text), text
    code, _ = code_of(service, bytes(MAX_MESSAGE + 1))
    assert code == "RESOURCE_EXHAUSTED"


def test_a_slow_stream_is_ended(service: Service) -> None:
    over = threading.Event()

    def slow() -> Iterator[bytes]:
        while not over.wait(0.5):
            yield b"\x00a"

    started = time.monotonic()
    try:
        with pytest.raises(grpc.RpcError) as caught:
            raw(service, slow, 30.0)
    finally:
        over.set()
    assert caught.value.code().name == "DEADLINE_EXCEEDED"
    assert "no answer within the time" in caught.value.details()
    assert time.monotonic() - started < RECEIVE_SECONDS + 3


def test_status_tells_no_secret(service: Service) -> None:
    status = service.connection("operator", "olga", 1, ORGANISATIONS[1]).ask(STATUS, {})
    assert set(status[0]) == {
        "rank", "trio", "identity", "version", "agreement", "boot", "state", "peers",
        "problem", "running", "waiting", "models", "time",
    }  # fmt: skip


# Last, for it ends a party


def test_a_party_that_leaves_is_named_and_comes_back(service: Service) -> None:
    service.hosts[1].stop()
    with pytest.raises(PeerError, match=r"org-b\.example") as caught:
        service.ask(service.client(seconds=2), turn())
    assert caught.value.peer == ORGANISATIONS[1]
    with pytest.raises(PeerError) as caught:  # the others say whom they miss
        service.one(replace(service.runs(turn())[2], request_id=new_id()), 2)
    assert caught.value.peer == ORGANISATIONS[1]
    service.hosts[1] = service.start(1)
    client, start = service.client(seconds=30), turn()
    assert np.abs(service.ask(client, start) - first(W, X)[0]).max() < 0.01
    service.wait_until_ready()
    assert service.hosts[1].status().models[0].digest == service.release.digest


def test_a_problem_is_told_without_private_texts(service: Service) -> None:
    """Status goes to everybody; where this party keeps its keys is its own business."""
    host = service.hosts[0]
    host.on_down(SetupError("/home/me/tls.key cannot be used."))
    assert "tls.key" not in (host.status().problem or "")
    host.on_up()
    host.on_agreed({NAME: service.release.digest})
    service.wait_until_ready()
