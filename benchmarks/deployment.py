"""A deployment on this machine, to be loaded and broken: three organisations with
authorities of their own, three processes of ``ditto party serve``, tiny models.

The links of each party go through a relay that can be cut, as a cable can.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import ditto
from ditto.errors import DittoError, SetupError
from ditto.trust import (
    Authority,
    Identity,
    Role,
    fingerprint,
    issue,
    load_credentials,
    make_authority,
)
from ditto.trust.authority import write_issued
from ditto.wire.agreement import Agreement
from ditto.wire.agreement_toml import to_toml
from ditto.wire.manifest import VERSION

DITTO = [sys.executable, "-c", "from ditto.cli import main; main()"]
ORGANISATIONS = ("org-a.example", "org-b.example", "org-c.example")
MEMBERS = "acme.example"
OWNER = f"spiffe://{MEMBERS}/owner/acme"
_READY_SECONDS = 120.0


def free_ports(count: int) -> list[int]:
    """Ports of loopback at which nobody listens."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Relay:
    """Passes bytes on to a port of this machine, until it is cut."""

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Pass nothing on, and tell nobody."""
        self._cut.set()

    def mend(self) -> None:
        """Connections that were cut break; new ones pass."""
        self._cut.clear()

    def _accept(self) -> None:
        while True:
            inward, _ = self._listener.accept()
            threading.Thread(target=self._pass_on, args=(inward,), daemon=True).start()

    def _pass_on(self, inward: socket.socket) -> None:
        with inward, contextlib.suppress(OSError):
            if self._cut.is_set():
                return
            with socket.create_connection(("127.0.0.1", self._target), 5) as outward:
                pairs = {inward: outward, outward: inward}
                while pairs:
                    ready, _, _ = select.select([*pairs], [], [], 0.2)
                    if self._cut.is_set():
                        while self._cut.is_set():
                            time.sleep(0.05)
                        return
                    for source in ready:
                        data = source.recv(1 << 18)
                        if data:
                            pairs[source].sendall(data)
                        else:
                            pairs.pop(source).shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Question:
    """What is asked, and what the simulator says to it."""

    model: str
    text: str
    tokens: int = 0
    """To be generated; 0: an answer is predicted."""
    expected: npt.NDArray[np.float32] | npt.NDArray[np.int64] | None = None

    def ask(self, client: "ditto.Client", timeout: float) -> bool:
        """Whether the parties' answer is the simulator's."""
        if self.expected is None:
            raise SetupError("Nobody knows the right answer to this question.")
        if self.tokens:
            stream = client.stream(self.model, self.text, self.tokens, timeout=timeout)
            made = [generated.token for generated in stream]
            return bool(made == self.expected.tolist())
        (answer,) = client.predict(self.model, [self.text], timeout=timeout)
        tolerance = 0.02 * max(1.0, float(np.abs(self.expected).max()))
        return float(np.abs(answer.output - self.expected).max()) < tolerance


class Deployed(Protocol):
    """A deployment that models are published to."""

    folder: Path
    deployment: Path
    """Its ``deployment.toml``."""

    def member(self, role: str, name: str) -> Path:
        """The credentials of somebody."""


class LocalParties:
    """Three processes of ``ditto party serve`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deployment = folder / "deployment.toml"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._authorities = {
            name: make_authority(name) for name in (*ORGANISATIONS, MEMBERS)
        }
        grpc, links, listen = (free_ports(9)[k::3] for k in range(3))
        self.relays = [
            Relay(port, target) for port, target in zip(links, listen, strict=True)
        ]
        self.deployment.write_text(to_toml(self._agreement(grpc, links)))
        for rank, domain in enumerate(ORGANISATIONS):
            credentials = self.member("party", str(rank), domain)
            (folder / f"party{rank}.toml").write_text(
                f'rank = {rank}\ncredentials = "{credentials.name}"\n'
                f'store = "store{rank}"\nlisten_link = "127.0.0.1:{listen[rank]}"\n'
            )

    def _agreement(self, grpc: Sequence[int], links: Sequence[int]) -> Agreement:
        def vouched(domain: str) -> dict[str, Any]:
            authority: Authority = self._authorities[domain]
            return {
                "trust_domain": domain,
                "ca_sha256": fingerprint(authority.certificate),
                "ca": authority.certificate_pem().decode(),
            }

        return Agreement.model_validate(
            {
                "format": 1,
                "name": "benchmark",
                "owners": [OWNER],
                "clients": [MEMBERS],
                "versions": {"min": VERSION, "max": VERSION},
                "parties": [
                    {
                        **vouched(domain),
                        "organisation": domain,
                        "grpc": f"127.0.0.1:{grpc[rank]}",
                        "link": f"127.0.0.1:{links[rank]}",
                    }
                    for rank, domain in enumerate(ORGANISATIONS)
                ],
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

    def start(self, rank: int) -> None:
        """Start a party's process."""
        with (self.folder / f"party{rank}.log").open("ab") as log:
            config = self.folder / f"party{rank}.toml"
            self._processes[rank] = subprocess.Popen(  # noqa: S603  (our own command)
                [*DITTO, "party", "serve", "--config", str(config)], stderr=log
            )

    def wait_until_ready(self) -> None:
        """Until all three take requests."""
        from ditto.client.remote import Trios
        from ditto.wire.agreement import read_agreement

        agreement = read_agreement(self.deployment)
        mine = load_credentials(
            self.member("client", "watch"), agreement.trusted_domains
        )
        trios, end = Trios(agreement, mine), time.monotonic() + _READY_SECONDS
        try:
            while True:
                with contextlib.suppress(DittoError):
                    if {s.state for s in trios.statuses(0, 5.0)} == {"ready"}:
                        return
                if time.monotonic() > end:
                    raise SetupError(f"The parties are not ready; see {self.folder}.")
                time.sleep(0.1)
        finally:
            trios.close()

    def send(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a party."""
        self._processes[rank].send_signal(number)
        if number == signal.SIGKILL:
            self._processes[rank].wait()

    def usage(self) -> tuple[int, int]:
        """Bytes of memory and open files of all three."""
        memory = files = 0
        for process in self._processes.values():
            with open(f"/proc/{process.pid}/statm", encoding="ascii") as status:
                memory += int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            files += len(os.listdir(f"/proc/{process.pid}/fd"))
        return memory, files

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self._processes.values():
            process.wait()


@contextlib.contextmanager
def open_parties() -> Iterator[LocalParties]:
    """Three parties that are ready, in a folder that is removed with them."""
    folder = Path(tempfile.mkdtemp(prefix="ditto-service-"))
    folder.chmod(0o700)
    parties = LocalParties(folder)
    before = os.environ.get("DITTO_CACHE")
    os.environ["DITTO_CACHE"] = str(folder / "cache")
    try:
        for rank in range(3):
            parties.start(rank)
        parties.wait_until_ready()
        yield parties
    finally:
        if before is None:
            del os.environ["DITTO_CACHE"]
        else:
            os.environ["DITTO_CACHE"] = before
        parties.stop()
        shutil.rmtree(folder, ignore_errors=True)


def publish_models(
    parties: Deployed, *, lengths: Sequence[int], tokens: int
) -> list[Question]:
    """Publish a classifier and a language model, both tiny; questions about them."""
    from benchmarks.tiny_models import TEXTS, bert_folder, gpt2_folder

    bert = bert_folder(parties.folder / "bert")
    questions = _publish(parties, bert, "acme/bert:1", TEXTS, lengths, 0)
    if tokens:
        gpt2 = gpt2_folder(parties.folder / "gpt2")
        prompts = [" ".join(text.split()[:3]) for text in TEXTS]
        prefill = [max(lengths)]
        questions += _publish(parties, gpt2, "acme/gpt2:1", prompts, prefill, tokens)
    return questions


def _publish(
    parties: Deployed,
    folder: Path,
    name: str,
    texts: Sequence[str],
    lengths: Sequence[int],
    tokens: int,
) -> list[Question]:
    from ditto.api import from_pretrained
    from ditto.api.export import export_model
    from ditto.owner.remote import RemotePublisher
    from ditto.wire.agreement import read_agreement

    agreement = read_agreement(parties.deployment)
    mine = load_credentials(parties.member("owner", "acme"), agreement.trusted_domains)
    publisher = RemotePublisher(agreement, mine)
    bundle = parties.folder / f"{folder.name}-bundle"
    try:
        with from_pretrained(folder, calibration=texts, mode="simulate") as model:
            export_model(
                model,
                folder,
                bundle,
                lengths=lengths,
                tokens=max(tokens, 1),
                owner=publisher.owner,
                name=name,
            )
            publisher.publish(bundle)
            if not tokens:
                fitting = [
                    text
                    for text in texts
                    if len(model.tokenizer.encode(text).ids) <= max(lengths)
                ]
                answers = model.predict(fitting, pad_to=max(lengths))
                return [
                    Question(name, text, 0, answer.output)
                    for text, answer in zip(fitting, answers, strict=True)
                ]
            return [
                Question(name, text, tokens, np.array(made))
                for text in texts
                if (made := _settled(model, text, tokens))
            ]
    finally:
        publisher.close()


def _settled(model: Any, text: str, tokens: int) -> list[int]:
    """What follows a text, if the float model says the same: else rounding decides."""
    made, exact = (
        [token.ids[0] for token in each.stream(text, tokens)]
        for each in (model, model.with_mode("float"))
    )
    return made if made == exact else []
