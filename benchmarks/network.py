"""Three hosts on this machine and a network between them, for benchmarks.

    with open_hosts(find_network("wan")) as hosts:
        with ProcessTrio(hosts=hosts.hosts, prefixes=hosts.prefixes) as trio:
            ...

A host is a Linux network namespace: a process started with its prefix sees the link to
the two others and nothing else. Each host sends at the bandwidth, to both others
together (``tbf``), and every packet is half a round trip on its way. Nothing is lost;
the MTU is 1500 and TCP is Linux's own with CUBIC, so a connection that was idle starts
slowly, as it would between real hosts.

Who delays the packets is chosen by what the machine has:

- ``netem``: the kernel, between veth pairs and a bridge;
- ``tun``: a process of ours (``benchmarks.switch``), where the kernel has no netem;
- ``loopback``: nobody, where namespaces cannot be had: not root, or no iproute2.

What the network is really like is measured when it opens. Whoever shows figures shows
``measured`` with them.
"""

import contextlib
import ctypes
import math
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from benchmarks import switch
from ditto.analysis import estimation as estimate
from ditto.errors import SetupError
from ditto.runtime.processes import free_hosts

Backend = Literal["netem", "tun", "loopback"]
Prefix = list[str]

_HOSTS = 3
_ADDRESSES = [f"198.18.0.{host + 1}" for host in range(_HOSTS)]  # RFC 2544
_SUBNET = "198.18.0.0/24"
_PORT = 9000
_QUEUE = 100_000
"""Packets that may be under way, beyond what TCP's windows allow."""
_WINDOW = 8 << 20
_BURST = 72 << 10
"""Bytes sent at once: what the kernel hands over in one piece, with its headers."""
_BURST_TIME = 200e-6
"""Or what leaves in this time, since timers are late by up to half of it."""
_PATIENCE = 60.0
_CLONE_NEWNET = 0x40000000
_PUSHING = 0.5
"""Seconds of a transfer that are timed."""
_SPEED_UP = 15
"""Round trips before that, for TCP to find its speed."""


@dataclass(frozen=True)
class Network(estimate.Network):
    """What is asked for. No round trip or infinite bandwidth: that is not shaped."""

    name: str = ""

    @property
    def shaped(self) -> bool:
        """Whether it is anything else than this machine's own loopback."""
        return self.rtt > 0 or self.bandwidth < math.inf


def _named(name: str, network: estimate.Network) -> Network:
    return Network(network.rtt, network.bandwidth, name)


NETWORKS = {
    "loopback": Network(0.0, math.inf, "loopback"),
    "lan": _named("lan", estimate.LAN),
    "wan": _named("wan", estimate.WAN),
}


def find_network(text: str) -> Network:
    """One of NETWORKS by its name, or any other as ``10ms,1gbit``."""
    if text in NETWORKS:
        return NETWORKS[text]
    rtt, comma, bandwidth = text.partition(",")
    if not comma:
        raise SetupError(
            f"There is no network {text!r}; name one of {', '.join(NETWORKS)}, or "
            f"write its round trip and bandwidth, such as 10ms,1gbit."
        )
    return _named(text, estimate.Network.parse(rtt, bandwidth))


@dataclass(frozen=True)
class Measured:
    """What the network is like, in seconds and bits per second, and who shapes it."""

    rtt: float
    """Of a byte from host 0 to host 1 and back, over TCP: the median."""
    bandwidth: float
    """Of one connection from host 0 to host 1 at full speed, where it arrives. Some
    four percent less than the link's, which the headers take."""
    backend: Backend
    rtts: tuple[float, float, float]
    """Between hosts 0 and 1, 1 and 2, 2 and 0."""
    note: str = ""
    """Why a network that was asked for could not be had."""


@dataclass(frozen=True)
class Hosts:
    """Three hosts that are open; ``close`` removes them."""

    network: Network
    hosts: tuple[str, str, str]
    """Where each may listen: address and port."""
    prefixes: tuple[Prefix, Prefix, Prefix]
    """What stands before a command to run it there."""
    measured: Measured
    _layout: "_Layout" = field(repr=False)
    _opened: ExitStack = field(repr=False)

    @property
    def addresses(self) -> list[str]:
        """Of the hosts, without a port."""
        return [host.partition(":")[0] for host in self.hosts]

    @contextlib.contextmanager
    def at(self, host: int) -> Iterator[None]:
        """This thread is at a host, and so are the threads and processes it starts."""
        if not self._layout.namespaces:
            yield
            return
        with open("/proc/thread-self/ns/net", "rb") as before:
            with open(f"/run/netns/{self._layout.namespaces[host]}", "rb") as there:
                _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def cut(self, host: int) -> None:
        """Drop whatever comes from a host or goes to it, and tell nobody."""
        self._layout.cut(host, True)

    def mend(self, host: int) -> None:
        """Pass packets on as before."""
        self._layout.cut(host, False)

    def close(self) -> None:
        """Remove the namespaces. Processes in them lose their network."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_hosts(network: Network) -> Hosts:
    """Make the hosts and measure what lies between them; a few seconds."""
    with ExitStack() as opened:
        layout = _lay_out(network, opened)
        measured = _measure(network, layout)
        p0, p1, p2 = layout.hosts
        a, b, c = layout.prefixes
        hosts, prefixes = (p0, p1, p2), (a, b, c)
        return Hosts(network, hosts, prefixes, measured, layout, opened.pop_all())


def remove_leftovers() -> list[str]:
    """Delete the namespaces of processes that were killed; their names."""
    leftovers = []
    for line in _run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        ours, _, rest = name.partition("-")
        owner = rest.split("-")[0]
        if ours == "ditto" and owner.isdigit() and not Path("/proc", owner).exists():
            _delete(name)
            leftovers.append(name)
    return leftovers


def _cannot_cut(_host: int, _cut: bool) -> None:
    raise SetupError("Loopback cannot be cut; network namespaces could not be made.")


@dataclass(frozen=True)
class _Layout:
    hosts: list[str]
    prefixes: list[Prefix]
    backend: Backend
    namespaces: list[str] = field(default_factory=list)
    cut: Callable[[int, bool], None] = _cannot_cut
    set_delay: Callable[[float], None] | None = None
    note: str = ""


def _lay_out(network: Network, opened: ExitStack) -> _Layout:
    reasons = []
    for shape in (_shape_by_netem, _shape_by_tun) if network.shaped else ():
        with ExitStack() as attempt:
            try:
                _check_rights()
                layout = shape(network, attempt)
            except SetupError as reason:
                reasons.append(str(reason))
            else:
                opened.push(attempt.pop_all())
                return layout
    note = " ".join(dict.fromkeys(reasons))
    return _Layout(free_hosts(), [[], [], []], "loopback", note=note)


def _check_rights() -> None:
    if os.geteuid() != 0:
        raise SetupError("Only root may make network namespaces.")
    for command in ("ip", "tc"):
        if find_tool(command) is None:
            raise SetupError(f"There is no command {command!r}; install iproute2.")


def _shape_by_netem(network: Network, opened: ExitStack) -> _Layout:
    """A bridge, whose port to each host delays what goes there."""
    *namespaces, middle = _make_namespaces(opened)
    _run("ip", "-n", middle, "link", "add", "bridge", "type", "bridge")
    _run("ip", "-n", middle, "link", "set", "bridge", "up")
    netem = ["netem", "limit", f"{_QUEUE}", "delay", f"{1e6 * network.rtt / 2:.0f}us"]
    for host, namespace in enumerate(namespaces):
        device, port = switch.device(host), f"port{host}"
        pair = ["link", "add", device, "type", "veth", "peer", "name", port]
        _run("ip", "-n", middle, *pair)
        _run("tc", "-n", middle, "qdisc", "add", "dev", port, "root", *netem)
        _run("ip", "-n", middle, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", middle, "link", "set", device, "netns", namespace)
        _bring_up(network, namespace, host)

    def cut(host: int, is_cut: bool) -> None:
        state = "down" if is_cut else "up"
        _run("ip", "-n", middle, "link", "set", f"port{host}", state)

    return _namespaced(namespaces, "netem", cut)


def _shape_by_tun(network: Network, opened: ExitStack) -> _Layout:
    """The switch makes the devices in a namespace of its own; each moves to a host."""
    *namespaces, middle = _make_namespaces(opened)
    process = _start(opened, _inside(middle), "switch", f"{_HOSTS}")
    _read_line(process)

    def order(*words: object) -> None:
        if process.stdin is not None:
            process.stdin.write(" ".join(map(str, words)) + "\n")
            process.stdin.flush()

    def set_delay(delay: float) -> None:
        order("delay", delay)

    def cut(host: int, is_cut: bool) -> None:
        order("cut" if is_cut else "mend", host)

    set_delay(network.rtt / 2)
    for host, namespace in enumerate(namespaces):
        device = switch.device(host)
        _run("ip", "-n", middle, "link", "set", device, "netns", namespace)
        _bring_up(network, namespace, host)
    return _namespaced(namespaces, "tun", cut, set_delay)


def _namespaced(
    namespaces: list[str],
    backend: Backend,
    cut: Callable[[int, bool], None],
    set_delay: Callable[[float], None] | None = None,
) -> _Layout:
    hosts = [f"{address}:{_PORT}" for address in _ADDRESSES]
    prefixes = [_inside(namespace) for namespace in namespaces]
    return _Layout(hosts, prefixes, backend, namespaces, cut, set_delay)


def _enter(namespace: int) -> None:
    """setns(2), which Python has from 3.12 on."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise SetupError(f"A namespace is closed: {os.strerror(ctypes.get_errno())}.")


def _inside(namespace: str) -> Prefix:
    return [find_tool("ip") or "ip", "netns", "exec", namespace]


def _make_namespaces(opened: ExitStack) -> list[str]:
    """One for each host and one for what lies between. Their names tell the owner."""
    remove_leftovers()
    run = f"ditto-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    names = [f"{run}-{part}" for part in (*range(_HOSTS), "between")]
    for name in names:
        opened.callback(_delete, name)
        _run("ip", "netns", "add", name)
    return names


def _bring_up(network: Network, namespace: str, host: int) -> None:
    """An address, the bandwidth, the usual TCP, and windows that fill the link."""
    device, address = switch.device(host), _ADDRESSES[host]
    _run("ip", "-n", namespace, "link", "set", "lo", "up")
    _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", device)
    _run("ip", "-n", namespace, "link", "set", device, "txqueuelen", "1000", "up")
    route = ["route", "replace", _SUBNET, "dev", device, "src", address]
    with contextlib.suppress(SetupError):  # without CUBIC, what the machine has
        _run("ip", "-n", namespace, *route, "congctl", "cubic")
    window = _WINDOW
    if network.bandwidth < math.inf:
        rate = network.bandwidth / 8
        window = max(window, int(4 * network.rtt * rate))
        burst = max(_BURST, int(_BURST_TIME * rate))
        tbf = ["tbf", "rate", f"{network.bandwidth:.0f}bit", "burst", f"{burst}"]
        tbf += ["limit", f"{4 * window}"]
        _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *tbf)
    for name in ("tcp_rmem", "tcp_wmem"):
        command = f"echo 4096 131072 {window} > /proc/sys/net/ipv4/{name}"
        _run(*_inside(namespace), "sh", "-c", command)


def _measure(network: Network, layout: _Layout) -> Measured:
    addresses = [host.partition(":")[0] for host in layout.hosts]
    with ExitStack() as opened:
        ports = [
            _read_line(_start(opened, prefix, "answer", address))
            for prefix, address in zip(layout.prefixes, addresses, strict=True)
        ]

        def probe(source: int, kind: str, *arguments: str) -> list[float]:
            target = (source + 1) % _HOSTS
            command = _command(layout.prefixes[source], kind)
            command += [addresses[target], ports[target], *arguments]
            return [float(word) for word in _run(*command).split()]

        if layout.set_delay is not None:
            _, least = probe(0, "ping")
            own = max(0.0, least - network.rtt)  # of the switch and of TCP
            layout.set_delay(max(0.0, network.rtt - own) / 2)
        (p0, _), (p1, _), (p2, _) = (probe(host, "ping") for host in range(_HOSTS))
        speeding_up = max(0.1, _SPEED_UP * network.rtt)
        (bandwidth,) = probe(0, "push", f"{_PUSHING}", f"{speeding_up}")
    return Measured(p0, bandwidth, layout.backend, (p0, p1, p2), layout.note)


def _command(prefix: Prefix, *arguments: str) -> list[str]:
    return [*prefix, sys.executable, "-I", switch.__file__, *arguments]


def _start(
    opened: ExitStack, prefix: Prefix, *arguments: str
) -> "subprocess.Popen[str]":
    process = subprocess.Popen(  # noqa: S603  (of this module alone)
        _command(prefix, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    opened.enter_context(process)
    opened.callback(process.kill)
    return process


def _read_line(process: "subprocess.Popen[str]") -> str:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("A process was started without pipes.")
    line = process.stdout.readline().strip()
    if not line:
        *_, reason = process.stderr.read().splitlines() or ["it ended at once"]
        raise SetupError(f"{switch.__name__} does not run here: {reason}.")
    return line


def find_tool(name: str) -> str | None:
    """A program of the system's, also where ordinary users do not look."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return shutil.which(name, path=path)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  (likewise)
            [find_tool(command[0]) or command[0], *command[1:]],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"{command!r} took more than {_PATIENCE:.0f} s.") from None
    if done.returncode:
        raise SetupError(f"{' '.join(command)}: {done.stderr.strip()}.")
    return done.stdout


def _delete(namespace: str) -> None:
    with contextlib.suppress(SetupError):  # it was not made, or is already gone
        _run("ip", "netns", "delete", namespace)
