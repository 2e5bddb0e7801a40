"""Two trios of the same three organisations: one of them is enough."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ditto.client.remote import RemoteDeployment, Trios
from ditto.client.remote_client import Client
from ditto.errors import UnknownModelError
from ditto.owner.remote import RemotePublisher
from ditto.party.server.config import read_config
from ditto.party.server.host import PartyHost
from ditto.wire import DropState, RunPlan, Turn
from tests.deployments import OWNER, Files, make_deployment
from tests.folders import bert_folder

from .test_service import turn
from .toy import X, compiled, export_toy

NAME = "acme/toy:1"
Hosts = dict[tuple[int, int], PartyHost]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make_deployment(tmp_path / "d", trios=2)


@pytest.fixture
def hosts(files: Files) -> Iterator[Hosts]:
    running: Hosts = {}
    try:
        for trio in range(2):
            for rank in range(3):
                config = read_config(files.party(rank)).model_copy(
                    update={
                        "trio": trio,
                        "store": files.folder / f"store{rank}-{trio}",
                        "listen_http": None,
                    }
                )
                running[trio, rank] = PartyHost(config)
                running[trio, rank].start()
        end = time.monotonic() + 30
        while any(host.status().state != "ready" for host in running.values()):
            assert time.monotonic() < end
            time.sleep(0.05)
        yield running
    finally:
        for host in running.values():
            host.stop()


def test_a_trio_that_is_gone_is_left_aside(
    files: Files, hosts: Hosts, tmp_path: Path
) -> None:
    from ditto.client import share_input
    from ditto.owner import signature_of

    plans = compiled()
    bundle = export_toy(
        tmp_path / "bundle", plans, NAME, OWNER, bert_folder(tmp_path / "bert")
    )
    owner = files.credentials(files.member("owner", "acme"))
    publisher = RemotePublisher(files.agreement, owner)
    release = publisher.publish(bundle)
    assert all(
        host.status().models[0].digest == release.digest for host in hosts.values()
    )
    alice = files.member("client", "alice")
    trios = Trios(files.agreement, files.credentials(alice))

    def ask(start: Turn) -> RemoteDeployment:
        client = RemoteDeployment(trios, time.monotonic() + 30)
        dealt = share_input(signature_of(plans[0]).inputs[1], X)
        client.call([RunPlan(NAME, plans[0].digest, start, each) for each in dealt])
        client.call([DropState(start.conversation)] * 3)
        return client

    for _ in range(4):
        ask(turn())
    for rank in range(3):  # as a trio that cannot read it
        hosts[0, rank]._library.retire(OWNER, NAME)
    while any(hosts[0, rank]._agreed for rank in range(3)):
        time.sleep(0.05)
    for _ in range(4):
        assert ask(turn())._trio == 1
    with Client(files.deployment, alice, cache=tmp_path / "elsewhere") as client:
        assert client.count_tokens(NAME, "the cat") > 0
        with pytest.raises(UnknownModelError):
            client.count_tokens("acme/other:1", "the cat")
    for rank in range(3):
        hosts[0, rank].stop()
    started = time.monotonic()
    for _ in range(4):
        assert ask(turn())._trio == 1
    assert time.monotonic() - started < 20
    with Client(files.deployment, alice, cache=tmp_path / "cache") as client:
        (card,) = client.models()
        assert card.digest == release.digest
    trios.close()
    publisher.close()
