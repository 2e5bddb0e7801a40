"""The processes of an emulated network: its switch, and the two ends of a measurement.

Run as a script, with nothing but the standard library, so that it starts at once:

    python -I switch.py switch HOSTS       between the hosts, see ``Switch``
    python -I switch.py answer ADDRESS     at one host; prints its port
    python -I switch.py ping ADDRESS PORT  at another; prints seconds there and back:
                                           the median and the least
    python -I switch.py push ADDRESS PORT SECONDS WARM_UP
                                           likewise; prints bits a second

A packet is read, waits, and is written again. Python manages gigabits of that because
the devices hand over up to 64 KiB at once, which the kernel counts as the segments it
would have cut them into (``IFF_VNET_HDR``): to TCP the MTU is still 1500.
"""

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import statistics
import struct
import sys
import time
from collections import deque
from pathlib import Path

_TUN = Path("/dev/net/tun")
_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_OFFLOADS = 0b111  # checksums, TCP segments over IPv4 and over IPv6
_VERSION_AT = 10  # after the virtio header
_HOST_AT = _VERSION_AT + 19  # the last byte of the destination
_PACKET = 10 + (1 << 16)
_READS = 8

_SAMPLES = 50
_SAMPLING = 0.6
_CHUNK = 1 << 20
_PING, _PUSH = b"?", b"!"


class Switch:
    """Hands packets from host to host, each after the same delay, in seconds.

    Host i has the address a.b.c.(i+1) and a TUN device ``device(i)``, made here to be
    moved into the host's namespace; it is gone when this process ends. The hosts limit
    what they send, so what waits here is no more than the links hold.
    """

    def __init__(self, hosts: int) -> None:
        self.delay = 0.0
        self._cut: set[int] = set()  # devices
        self._devices = [_open_device(i) for i in range(hosts)]
        self._queue: deque[tuple[float, int, bytes]] = deque()

    def run(self, orders: int) -> None:
        """Serve until the orders end, a line each: the ``delay`` from now on, or a host
        to ``cut`` or to ``mend``."""
        while True:
            ready, _, _ = select.select([orders, *self._devices], [], [], self._wait())
            self._deliver()
            for file in ready:
                if file != orders:
                    self._accept(file)
                elif lines := os.read(orders, 4096).decode().splitlines():
                    for line in lines:
                        self._obey(*line.split())
                else:
                    return

    def _obey(self, what: str, value: str) -> None:
        match what:
            case "delay":
                self.delay = float(value)
            case "cut":
                self._cut.add(self._devices[int(value)])
            case "mend":
                self._cut.discard(self._devices[int(value)])

    def _wait(self) -> float | None:
        """Seconds until the next packet is due."""
        return max(0.0, self._queue[0][0] - time.monotonic()) if self._queue else None

    def _accept(self, sender: int) -> None:
        for _ in range(_READS):
            try:
                packet = os.read(sender, _PACKET)
            except BlockingIOError:
                return
            to = packet[_HOST_AT] - 1
            if sender in self._cut:
                continue
            if packet[_VERSION_AT] >> 4 == 4 and 0 <= to < len(self._devices):
                due = time.monotonic() + self.delay
                self._queue.append((due, self._devices[to], packet))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, to, packet = self._queue.popleft()
            if to in self._cut:
                continue
            with contextlib.suppress(OSError):  # a host that is not up yet, or gone
                os.write(to, packet)


def device(host: int) -> str:
    """The name of a host's network device."""
    return f"party{host}"


def _open_device(host: int) -> int:
    file = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", device(host).encode(), flags))
    fcntl.ioctl(file, _TUNSETOFFLOAD, _OFFLOADS)
    return file


def _be_punctual() -> None:
    """Wake when due, also while the parties compute; a kernel's queue would."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with contextlib.suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")
    gc.disable()


def _answer(address: str) -> None:
    with socket.create_server((address, 0)) as server:
        _say(server.getsockname()[1])
        while server in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if connection.recv(1) == _PING:
                    while ball := connection.recv(1):
                        connection.sendall(ball)
                else:
                    _swallow(connection)


def _swallow(connection: socket.socket) -> None:
    """Receive to the end; answer with the bits a second after the warm-up."""
    (warm_up,) = struct.unpack("<d", connection.recv(8, socket.MSG_WAITALL))
    buffer, received = bytearray(_CHUNK), 0
    begun = last = time.monotonic()
    warm = begun + warm_up
    while count := connection.recv_into(buffer):
        last = time.monotonic()
        if last < warm:
            begun = last
        else:
            received += count
    connection.sendall(struct.pack("<d", 8 * received / max(last - begun, 1e-9)))


def _call(address: str, port: int, kind: bytes) -> socket.socket:
    connection = socket.create_connection((address, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(kind)
    return connection


def _ping(address: str, port: int) -> None:
    seconds: list[float] = []
    with _call(address, port, _PING) as connection:
        while len(seconds) < _SAMPLES and sum(seconds) < _SAMPLING:
            started = time.perf_counter()
            connection.sendall(_PING)
            connection.recv(1)
            seconds.append(time.perf_counter() - started)
    _say(statistics.median(seconds), min(seconds))


def _push(address: str, port: int, seconds: float, warm_up: float) -> None:
    chunk = bytes(_CHUNK)
    with _call(address, port, _PUSH) as connection:
        connection.sendall(struct.pack("<d", warm_up))
        end = time.monotonic() + warm_up + seconds
        while time.monotonic() < end:
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
        (rate,) = struct.unpack("<d", connection.recv(8, socket.MSG_WAITALL))
    _say(rate)


def _say(*values: object) -> None:
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def main(task: str, *arguments: str) -> None:
    """See above. An interrupt is left to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    match task, arguments:
        case "switch", (hosts,):
            switch = Switch(int(hosts))
            _be_punctual()
            _say("ready")
            switch.run(sys.stdin.fileno())
        case "answer", (address,):
            _answer(address)
        case "ping", (address, port):
            _ping(address, int(port))
        case "push", (address, port, seconds, warm_up):
            _push(address, int(port), float(seconds), float(warm_up))
        case _:
            raise SystemExit(
                f"{task!r} with {len(arguments)} arguments is not understood."
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
