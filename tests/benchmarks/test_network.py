"""Three hosts on one machine: as far apart as asked for, and gone afterwards."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import network as under_test
from benchmarks.network import (
    NETWORKS,
    Hosts,
    Network,
    find_network,
    find_tool,
    open_hosts,
    remove_leftovers,
)
from ditto.errors import SetupError
from ditto.frames import Arrays, Json
from ditto.runtime import ProcessTrio, Session

ROUNDS = 20
TRIES = 8
PAUSE = 10.0
SHAPED = Network(rtt=20e-3, bandwidth=200e6, name="test")
NEAR = Network(rtt=1e-3, bandwidth=1e9, name="near")


def ip_netns(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [find_tool("ip") or "ip", "netns", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def namespaces() -> list[str]:
    """Those that this process has made."""
    names = ip_netns("list").stdout.split()
    return [name for name in names if name.startswith(f"ditto-{os.getpid()}-")]


@pytest.fixture(scope="module")
def _namespaces_allowed() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may make network namespaces")
    if find_tool("ip") is None or find_tool("tc") is None:
        pytest.skip("iproute2 is not installed")
    name = f"ditto-{os.getpid()}-try"
    if ip_netns("add", name).returncode:
        pytest.skip("this machine allows no network namespaces")
    ip_netns("delete", name)
    if not Path("/dev/net/tun").exists():
        pytest.skip("there is no /dev/net/tun")


@pytest.fixture(scope="module")
def hosts(_namespaces_allowed: None) -> Iterator[Hosts]:
    """Opened again while another program takes the switch's processor time."""
    for left in reversed(range(TRIES)):
        with open_hosts(SHAPED) as opened:
            if as_asked_for(opened) or not left:
                yield opened
                return
        time.sleep(PAUSE)


def as_asked_for(hosts: Hosts) -> bool:
    measured = hosts.measured
    return measured.rtts == pytest.approx([SHAPED.rtt] * 3, rel=0.25) and (
        measured.bandwidth == pytest.approx(SHAPED.bandwidth, rel=0.25)
    )


def pass_around(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """Each sends to the one before it and waits for the one after, again and again."""
    channel, seconds = session.party.channel, []
    for tag in range(ROUNDS):
        started = time.perf_counter()
        channel.send(channel.rank.previous, [np.zeros(8, np.uint8)], tag=tag)
        channel.receive(channel.rank.next, size=8, tag=tag)
        seconds.append(time.perf_counter() - started)
    namespace = os.readlink("/proc/self/ns/net")
    return {"seconds": seconds, "namespace": namespace}, {}


def test_networks_are_found_by_name_and_by_figures() -> None:
    assert find_network("wan") == Network(rtt=40e-3, bandwidth=400e6, name="wan")
    assert find_network("10ms,1gbit") == Network(10e-3, 1e9, "10ms,1gbit")
    assert not NETWORKS["loopback"].shaped


@pytest.mark.parametrize("text", ["moon", "10ms", "10,1gbit", "10ms,fast"])
def test_a_network_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="such as"):
        find_network(text)


def test_loopback_is_measured_too() -> None:
    with open_hosts(NETWORKS["loopback"]) as opened:
        assert opened.prefixes == ([], [], [])
        assert len(set(opened.hosts)) == 3
        assert opened.measured.backend == "loopback"
        assert opened.measured.note == ""
        assert 0 < opened.measured.rtt < 10e-3
        assert 1e8 < opened.measured.bandwidth < math.inf


def test_a_network_that_cannot_be_had_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with open_hosts(SHAPED) as opened:
        assert opened.measured.backend == "loopback"
        assert opened.measured.note == "Only root may make network namespaces."
        assert opened.measured.rtt < SHAPED.rtt


def test_the_network_is_as_asked_for(hosts: Hosts) -> None:
    assert hosts.measured.backend in ("netem", "tun")
    assert as_asked_for(hosts), hosts.measured


def test_parties_compute_across_the_hosts(hosts: Hosts) -> None:
    with ProcessTrio(hosts=hosts.hosts, prefixes=hosts.prefixes) as trio:
        replies = [reply for reply, _ in trio.call(pass_around)]
    assert len({reply["namespace"] for reply in replies}) == 3
    for reply in replies:
        assert np.mean(reply["seconds"]) > 0.45 * SHAPED.rtt


@pytest.mark.usefixtures("_namespaces_allowed")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_hosts_are_gone_after_an_error(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = namespaces()

    def fail(*_: object) -> None:
        assert len(namespaces()) == len(before) + 4
        raise error

    monkeypatch.setattr(under_test, "_measure", fail)
    with pytest.raises(error):
        open_hosts(SHAPED)
    assert namespaces() == before


@pytest.mark.usefixtures("_namespaces_allowed")
def test_hosts_are_gone_after_use() -> None:
    before = namespaces()
    with pytest.raises(ValueError, match="of the user"), open_hosts(NEAR):
        raise ValueError("of the user")
    assert namespaces() == before


@pytest.mark.usefixtures("_namespaces_allowed")
def test_what_a_killed_process_left_is_removed() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    leftover = f"ditto-{done.pid}-{os.getpid()}-0"
    ip_netns("add", leftover)
    kept = f"ditto-{os.getpid()}-kept-0"
    ip_netns("add", kept)
    try:
        remove_leftovers()
        assert leftover not in ip_netns("list").stdout
        assert kept in namespaces()
    finally:
        ip_netns("delete", kept)
