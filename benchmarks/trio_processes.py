"""Several trios of one deployment, each party a process: on loopback, or on hosts that
have a network between them."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ditto
from benchmarks.deployment import DITTO, MEMBERS, ORGANISATIONS, OWNER, Question
from benchmarks.load import LATE, Outcome
from ditto.client.remote import Trios
from ditto.errors import DittoError, SetupError
from ditto.trust import Identity, Role, fingerprint, issue, load_credentials
from ditto.trust.authority import make_authority, write_issued
from ditto.wire.agreement import Agreement, read_agreement
from ditto.wire.agreement_toml import to_toml
from ditto.wire.manifest import VERSION

_READY_SECONDS = 120.0
RANKS = range(3)


def free_tens(count: int, each: int) -> list[int]:
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


class TrioProcesses:
    """``trios`` times three processes of ``ditto party serve`` in a folder.

    ``hosts`` are the addresses of the three organisations, ``prefixes`` what stands
    before a command to run it there.
    """

    def __init__(
        self,
        folder: Path,
        trios: int,
        *,
        hosts: Sequence[str] = ("127.0.0.1",) * 3,
        prefixes: Sequence[Sequence[str]] = ((), (), ()),
        last_version: str = VERSION,
    ) -> None:
        self.folder, self.trios = folder, trios
        self.deployment = folder / "deployment.toml"
        self._prefixes = prefixes
        self._processes: dict[tuple[int, int], subprocess.Popen[bytes]] = {}
        self._authorities = {
            name: make_authority(name) for name in (*ORGANISATIONS, MEMBERS)
        }
        tens = free_tens(6, trios)
        self._addresses = [
            (f"{host}:{tens[rank]}{{trio}}", f"{host}:{tens[3 + rank]}{{trio}}")
            for rank, host in enumerate(hosts)
        ]
        self._last_version = last_version
        self.deployment.write_text(to_toml(self.agreement(trios)))
        for rank, domain in enumerate(ORGANISATIONS):
            credentials = self._issue("party", str(rank), domain)
            for trio in range(trios):
                self._config(trio, rank).write_text(
                    f"rank = {rank}\ntrio = {trio}\n"
                    f'credentials = "{credentials.name}"\n'
                    f'store = "store-{trio}-{rank}"\n'
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
                "name": "trios",
                "trios": trios,
                "owners": [OWNER],
                "clients": [MEMBERS],
                "versions": {"min": VERSION, "max": self._last_version},
                "parties": parties,
                "domains": [vouched(MEMBERS)],
            }
        )

    def member(self, role: str, name: str) -> Path:
        """The credentials of an owner or a client."""
        return self._issue(role, name, MEMBERS)

    def _issue(self, role: str, name: str, domain: str) -> Path:
        folder = self.folder / f"{role}-{name}"
        if not folder.exists():
            identity = Identity(domain, Role(role), name)
            write_issued(folder, issue(self._authorities[domain], identity))
        return folder

    def _config(self, trio: int, rank: int) -> Path:
        return self.folder / f"party-{trio}-{rank}.toml"

    def start(self, trio: int, environment: Mapping[str, str] | None = None) -> None:
        """Start the three processes of a trio."""
        for rank in RANKS:
            command = [*DITTO, "party", "serve", "--config"]
            with self._log(trio, rank).open("ab") as log:
                self._processes[trio, rank] = subprocess.Popen(  # noqa: S603  (ours)
                    [*self._prefixes[rank], *command, str(self._config(trio, rank))],
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                )

    def send(self, trio: int, number: signal.Signals) -> None:
        """Send a signal to the three processes of a trio."""
        for rank in RANKS:
            self._processes[trio, rank].send_signal(number)

    def wait_until_ended(self, trio: int, seconds: float) -> list[int]:
        """The exit codes of the three processes of a trio."""
        end = time.monotonic() + seconds
        return [
            self._processes[trio, rank].wait(max(end - time.monotonic(), 0.1))
            for rank in RANKS
        ]

    def wait_until_ready(self, trio: int) -> list[str]:
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

    def _log(self, trio: int, rank: int) -> Path:
        return self.folder / f"party-{trio}-{rank}.log"

    def logs(self, trio: int) -> str:
        """What the parties of a trio have logged."""
        return "\n".join(self._log(trio, rank).read_text() for rank in RANKS)

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()


class SharedClient:
    """Threads that ask questions by one client, until they are told to stop."""

    def __init__(
        self,
        client: ditto.Client,
        questions: Iterable[Question],
        threads: int,
        timeout: float,
    ) -> None:
        self.outcome = Outcome()
        self._client, self._timeout = client, timeout
        self._questions = iter(questions)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(threads)
        ]

    def start(self) -> None:
        """Ask from now on."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> Outcome:
        """Ask no more, and wait for the answers that are due."""
        self._over.set()
        return self.wait()

    def wait(self) -> Outcome:
        """Until all questions have their answers."""
        for thread in self._threads:
            thread.join()
        return self.outcome

    def wait_for(self, count: int, seconds: float) -> None:
        """Until so many more questions are answered or have failed."""
        end, before = time.monotonic() + seconds, self._ended
        while self._ended < before + count and time.monotonic() < end:
            time.sleep(0.02)

    @property
    def _ended(self) -> int:
        return self.outcome.completed + self.outcome.failed

    def _work(self) -> None:
        while not self._over.is_set():
            with self._lock:
                question = next(self._questions, None)
            if question is None:
                return
            self._ask(question)

    def _ask(self, question: Question) -> None:
        started = time.monotonic()
        right, problem = False, ""
        try:
            right = question.ask(self._client, self._timeout)
        except DittoError as error:
            problem = f"{error.code}: {error}"
        seconds = time.monotonic() - started
        with self._lock:
            outcome = self.outcome
            outcome.hangs += seconds > self._timeout + LATE
            if problem:
                outcome.failed += 1
                outcome.errors[problem] += 1
                return
            outcome.completed += 1
            outcome.wrong += not right
            outcome.seconds.append(seconds)
