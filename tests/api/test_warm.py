"""A process that keeps three parties for others of the same user."""

import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ditto.api import Pretrained, from_pretrained
from ditto.api.backends import PartiesBackend
from ditto.api.warm import Connection, WarmDeployment, check_peer, scatter
from ditto.api.warm_service import WarmService, serve_forever
from ditto.errors import MessageError, RequestError, SetupError, WarmWarning
from ditto.files import warm_socket
from ditto.party import LocalDeployment
from ditto.runtime import ThreadTrio
from ditto.wire import DropState, RegisterModel, RunPlan, Status
from tests.folders import TEXTS, bert_folder, gpt2_folder


class Warm:
    """A warm process, as threads of this one."""

    def __init__(self, folders: list[Path], path: Path) -> None:
        self.trio = ThreadTrio()
        self.service = WarmService(LocalDeployment(self.trio))
        for folder in folders:
            model = from_pretrained(folder, calibration=TEXTS, mode="float")
            self.service.serve_model(model, [8])
        ready = threading.Event()
        arguments = self.service, path, ready.set
        threading.Thread(target=serve_forever, args=arguments, daemon=True).start()
        assert ready.wait(10)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [bert_folder(root / "bert", layers=1), gpt2_folder(root / "gpt2", layers=1)]


@pytest.fixture(scope="module")
def warm(
    folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warm]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        started = Warm(folders, warm_socket())
        yield started
        started.trio.close()


def opened(folder: Path, **settings: object) -> Pretrained:
    return from_pretrained(folder, calibration=TEXTS, **settings)  # type: ignore[arg-type]


def backend(model: Pretrained) -> PartiesBackend:
    assert isinstance(model.backend, PartiesBackend)
    return model.backend


def test_the_parties_of_the_warm_process_answer(
    warm: Warm, folders: list[Path]
) -> None:
    parts: list[str] = []
    with opened(folders[0], on_part=lambda part, *_: parts.append(part)) as model:
        (answer,) = model.predict(TEXTS[:1])
        assert not backend(model)._deployment.running
        (status, *_) = backend(model).status()
        assert model.plans.plan(next(iter(model.plans._made))).digest in status.plans
    assert answer.difference is not None
    assert answer.difference < 0.02
    assert "encoder.layer.0" in parts
    assert model.last_run is not None
    assert model.last_run.rounds > 0


def test_a_plan_that_it_has_not_is_handed_out(warm: Warm, folders: list[Path]) -> None:
    stages: list[str] = []
    with opened(folders[0], on_stage=stages.append) as model:
        (answer,) = model.predict(TEXTS[:1], pad_to=12)
        assert not backend(model)._deployment.running
    assert answer.doubt is None
    assert "handing out the plan" in stages


def test_a_text_is_continued_and_its_state_goes_with_the_client(
    warm: Warm, folders: list[Path]
) -> None:
    model = opened(folders[1])
    tokens = model.stream("the cat", 3)
    first = next(tokens)
    assert first.doubts == (None,)
    states = [reply.states for reply in backend(model).status()]
    assert states == [1, 1, 1]
    warmly = backend(model)._warm
    assert warmly is not None
    warmly.close()  # as if the process had ended
    other = WarmDeployment.find(model.plans.identity)
    assert other is not None
    deadline = time.monotonic() + 10
    while any(r.states for r in other.call_all(Status())):
        assert time.monotonic() < deadline
    other.close()


def test_other_settings_are_not_served(warm: Warm, folders: list[Path]) -> None:
    same, wider = opened(folders[0]), opened(folders[0], margin=3.0)
    other = from_pretrained(folders[0], calibration=TEXTS[:2])
    found = [WarmDeployment.find(m.plans.identity) for m in (same, wider, other)]
    assert [each is None for each in found] == [False, True, True]
    for each in found:
        if each is not None:
            each.close()


def test_only_questions_are_passed_on(warm: Warm, folders: list[Path]) -> None:
    identity = opened(folders[0]).plans.identity
    found = WarmDeployment.find(identity)
    assert found is not None
    with pytest.raises(RequestError, match="does not pass on RegisterModel"):
        found.call_all(RegisterModel("m", "another", ()))
    with pytest.raises(RequestError, match="another model"):
        found.call_all(RunPlan("m", "d"))
    with pytest.raises(RequestError, match="asked for the same"):
        found.call([Status(), DropState("c"), Status()])  # type: ignore[list-item]
    with pytest.raises(RequestError, match="not asked for 'shutdown'"):
        found._exchange({"ask": "shutdown"})
    with pytest.raises(RequestError, match="No 'plan' came"):
        found._exchange({"ask": "publish", "identity": identity})
    assert len(found.call_all(Status())) == 3  # and it goes on
    found.close()


def test_what_is_no_frame_ends_the_connection_alone(
    warm: Warm, folders: list[Path]
) -> None:
    for data in (b"\xff" * 64, b"\x04" + b"\0" * 7 + b"abcd", b"GET / HTTP/1.0\n\n"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as plain:
            plain.connect(str(warm_socket()))
            plain.sendall(data)
            plain.settimeout(10)
            assert plain.recv(1) == b""
    found = WarmDeployment.find(opened(folders[0]).plans.identity)
    assert found is not None
    found.close()


@pytest.mark.parametrize("bodies", [None, [], [{}, {}], [{}, {}, 3]])
def test_a_message_for_three_has_three_parts(bodies: object) -> None:
    with pytest.raises(MessageError, match="three messages"):
        scatter(bodies, {})


def test_an_array_belongs_to_a_party() -> None:
    with pytest.raises(MessageError, match="after no party"):
        scatter([{}, {}, {}], {"3/x": np.zeros(1)})


def test_the_socket_is_this_users_alone(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = warm_socket()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(SetupError, match="already answers"):
        serve_forever(warm.service, path)
    one, other = socket.socketpair()
    with one, other:
        check_peer(one)
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(MessageError, match="belongs to user"):
            Connection(one)


def test_when_it_is_gone_the_model_goes_on_alone(
    warm: Warm, folders: list[Path]
) -> None:
    model = opened(folders[0])
    model.predict(TEXTS[:1])
    warmly = backend(model)._warm
    assert warmly is not None
    warmly.close()
    with ThreadTrio() as trio:
        backend(model)._deployment = LocalDeployment(trio)
        backend(model)._owner._deployment = backend(model)._deployment
        with pytest.warns(WarmWarning, match="gone. Going on alone"):
            (answer,) = model.predict(TEXTS[:1])
    assert answer.doubt is None


def test_it_can_be_left_aside(warm: Warm, folders: list[Path]) -> None:
    with ThreadTrio() as trio, opened(folders[0], trio=trio) as model:
        assert not backend(model)._may_be_warm
    assert not backend(opened(folders[0], warm=False))._may_be_warm
