"""A deployment to be loaded and broken: three organisations with authorities of their
own, processes of ``ditto party serve``, on loopback or on three hosts of an emulated
network."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.network import Hosts, Network, open_hosts
from ditto.client.remote import Trios
from ditto.errors import DittoError, SetupError
from ditto.trust import Identity, Role, fingerprint, issue, load_credentials
from ditto.trust.authority import make_authority, write_issued
from ditto.wire.agreement import Agreement, read_agreement
from ditto.wire.agreement_toml import to_toml
from ditto.wire.manifest import VERSION

DITTO = [sys.executable, "-c", "from ditto.cli import main; main()"]
ORGANISATIONS = ("org-a.example", "org-b.example", "org-c.example")
MEMBERS = "acme.example"
OWNER = f"spiffe://{MEMBERS}/owner/acme"
RANKS = range(3)
_LOOPBACK = ("127.0.0.1",) * 3
_READY_SECONDS = 120.0


class Parties:
    """``trios`` times three processes of ``ditto party serve`` in a folder.

    Whoever asks them is at the first of the hosts: see ``Hosts.at``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        trios: int = 1,
        hosts: Hosts | None = None,
        lanes: int | None = None,
        last_version: str = VERSION,
    ) -> None:
        self.folder, self.trios = folder, trios
        self.deployment = folder / "deployment.toml"
        self.hosts = hosts
        self._processes: dict[tuple[int, int], subprocess.Popen[bytes]] = {}
        self._authorities = {
            name: make_authority(name) for name in (*ORGANISATIONS, MEMBERS)
        }
        tens = _free_tens(9, trios)
        here = _LOOPBACK if hosts is None else hosts.addresses
        self._addresses = [
            (f"{host}:{tens[rank]}{{trio}}", f"{host}:{tens[3 + rank]}{{trio}}")
            for rank, host in enumerate(here)
        ]
        self.http = [f"{host}:{tens[6 + rank]}" for rank, host in enumerate(here)]
        """Where each party tells its metrics, but for the number of the trio."""
        self._last_version = last_version
        self._limits = {} if lanes is None else {"lanes": lanes}
        self.deployment.write_text(to_toml(self.agreement(trios)))
        for rank, domain in enumerate(ORGANISATIONS):
            credentials = self.member("party", str(rank), domain)
            for trio in range(trios):
                self._config(trio, rank).write_text(
                    f"rank = {rank}\ntrio = {trio}\n"
                    f'credentials = "{credentials.name}"\n'
                    f'store = "store-{trio}-{rank}"\n'
                    f'listen_http = "{self.http[rank]}{trio}"\n'
                )

    def agreement(self, trios: int) -> Agreement:
        """The agreement, as if there were so many trios."""

        def vouched(domain: str) -> dict[str, Any]:
            authority = self._authorities[domain]
            return {
                "trust_domain": domain,
                "ca_sha256": fingerprint(authority.certificate),
                "ca": authority.certificate_pem().decode(),
            }

        parties = [
            {**vouched(domain), "organisation": domain, "grpc": grpc, "link": link}
            for domain, (grpc, link) in zip(ORGANISATIONS, self._addresses, strict=True)
        ]
        return Agreement.model_validate(
            {
                "format": 1,
                "name": "benchmark",
                "trios": trios,
                "owners": [OWNER],
                "clients": [MEMBERS],
                "versions": {"min": VERSION, "max": self._last_version},
                "limits": self._limits,
                "parties": parties,
                "domains": [vouched(MEMBERS)],
            }
        )

    def member(self, role: str, name: str, domain: str = MEMBERS) -> Path:
        """The credentials of somebody."""
        folder = self.folder / f"{role}-{name}"
        if not folder.exists():
            identity = Identity(domain, Role(role), name)
            write_issued(folder, issue(self._authorities[domain], identity))
        return folder

    def start(
        self,
        trio: int = 0,
        ranks: Sequence[int] = RANKS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start processes of a trio."""
        for rank in ranks:
            prefix = [] if self.hosts is None else self.hosts.prefixes[rank]
            config = ["--config", str(self._config(trio, rank))]
            with self._log(trio, rank).open("ab") as log:
                self._processes[trio, rank] = subprocess.Popen(  # noqa: S603  (ours)
                    [*prefix, *DITTO, "party", "serve", *config],
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                )

    def send(
        self, number: signal.Signals, trio: int = 0, ranks: Sequence[int] = RANKS
    ) -> None:
        """Send a signal to processes of a trio."""
        for rank in ranks:
            self._processes[trio, rank].send_signal(number)
            if number == signal.SIGKILL:
                self._processes[trio, rank].wait()

    def wait_until_ended(self, trio: int, seconds: float) -> list[int]:
        """The exit codes of the three processes of a trio."""
        end = time.monotonic() + seconds
        return [
            self._processes[trio, rank].wait(max(end - time.monotonic(), 0.1))
            for rank in RANKS
        ]

    def wait_until_ready(self, trio: int = 0) -> list[str]:
        """Until the parties of a trio take requests; their versions."""
        agreement = read_agreement(self.deployment)
        watch = self.member("client", "watch")
        trios = Trios(agreement, load_credentials(watch, agreement.trusted_domains))
        end = time.monotonic() + _READY_SECONDS
        try:
            while True:
                with contextlib.suppress(DittoError):
                    statuses = trios.statuses(trio, 5.0)
                    if {status.state for status in statuses} == {"ready"}:
                        return [status.version for status in statuses]
                if time.monotonic() > end:
                    raise SetupError(f"Trio {trio} is not ready:\n{self.logs(trio)}")
                time.sleep(0.1)
        finally:
            trios.close()

    def usage(self) -> tuple[int, int]:
        """Bytes of memory and open files of all processes."""
        memory = files = 0
        for process in self._processes.values():
            with open(f"/proc/{process.pid}/statm", encoding="ascii") as status:
                memory += int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            files += len(os.listdir(f"/proc/{process.pid}/fd"))
        return memory, files

    def processor_seconds(self) -> float:
        """That all processes together have computed so far."""
        ticks = 0
        for process in self._processes.values():
            with contextlib.suppress(OSError):  # one that was killed counts no more
                text = Path(f"/proc/{process.pid}/stat").read_text()
                ticks += sum(map(int, text.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def logs(self, trio: int = 0) -> str:
        """What the parties of a trio have logged."""
        return "\n".join(self._log(trio, rank).read_text() for rank in RANKS)

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _config(self, trio: int, rank: int) -> Path:
        return self.folder / f"party-{trio}-{rank}.toml"

    def _log(self, trio: int, rank: int) -> Path:
        return self.folder / f"party-{trio}-{rank}.log"


@contextlib.contextmanager
def open_parties(
    network: Network | None = None, *, trios: int = 1, lanes: int | None = None
) -> Iterator[Parties]:
    """Parties that are ready, in a folder that is removed with them; the agreement says
    how many lanes they have unless ``lanes`` does.

    With a network each organisation is a host of it, and this thread is at the first.
    """
    with contextlib.ExitStack() as opened:
        folder = Path(tempfile.mkdtemp(prefix="ditto-parties-"))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        opened.enter_context(_cache_at(folder / "cache"))
        hosts = None
        if network is not None and network.shaped:
            hosts = opened.enter_context(open_hosts(network))
            opened.enter_context(hosts.at(0))
        parties = Parties(folder, trios=trios, hosts=hosts, lanes=lanes)
        opened.callback(parties.stop)
        for trio in range(trios):
            parties.start(trio)
        for trio in range(trios):
            parties.wait_until_ready(trio)
        yield parties


@contextlib.contextmanager
def _cache_at(folder: Path) -> Iterator[None]:
    before = os.environ.get("DITTO_CACHE")
    os.environ["DITTO_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("DITTO_CACHE")
        if before is not None:
            os.environ["DITTO_CACHE"] = before


def _free_tens(count: int, each: int) -> list[int]:
    """Tens of ports of loopback, where nobody listens at the first ``each`` of them."""
    rng, tens = random.Random(), list[int]()  # noqa: S311  (no secrets)
    while len(tens) < count:
        ten = rng.randrange(1100, 3200)
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            for k in range(each):
                one = opened.enter_context(socket.socket())
                one.bind(("127.0.0.1", 10 * ten + k))
            tens += [] if ten in tens else [ten]
    return tens
