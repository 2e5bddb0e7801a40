"""Three parties in threads of this process, with a toy model, for tests."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ditto.client import open_outputs, share_input
from ditto.client.connection import PartyConnection
from ditto.client.remote import RemoteDeployment, Trios
from ditto.owner import signature_of
from ditto.owner.remote import RemotePublisher
from ditto.party.server.config import read_config
from ditto.party.server.host import PartyHost
from ditto.plan import Audit, Plan
from ditto.wire import RunPlan, Turn
from ditto.wire.messages import encode
from ditto.wire.methods import CALL
from tests.deployments import ACME, OWNER, Files, make_deployment
from tests.folders import bert_folder

from .toy import X, compiled, export_toy

NAME = "acme/toy:1"
NEXT_VERSION = "0.1.0"
"""Which the agreement admits as well."""


class Service:
    """Three parties in threads of this process, with a model and who asks it."""

    def __init__(
        self,
        folder: Path,
        audit: Audit = "off",
        audit_chance: float = 1.0,
        *,
        provable: bool = False,
        **limits: int,
    ) -> None:
        told = {
            "queue_length": 2,
            "states_per_client": 2,
            "max_request_bytes": 1 << 20,
        }
        self.files: Files = make_deployment(
            folder,
            last_version=NEXT_VERSION,
            audit=audit,
            audit_chance=audit_chance,
            **(told | limits),
        )
        self.plans: tuple[Plan, Plan] = compiled(provable=provable)
        self.hosts = [self.start(rank) for rank in range(3)]
        self.wait_until_ready()
        self.bundle = export_toy(
            folder / "bundle", self.plans, NAME, OWNER, bert_folder(folder / "bert")
        )
        self.owner = self.publisher("acme")
        self.release = self.owner.publish(self.bundle)

    def start(self, rank: int) -> PartyHost:
        host = PartyHost(read_config(self.files.party(rank)))
        host.start()
        return host

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 30
        while any(host.status().state != "ready" for host in self.hosts):
            assert time.monotonic() < end
            time.sleep(0.05)

    def publisher(self, name: str) -> RemotePublisher:
        folder = self.files.member("owner", name)
        return RemotePublisher(self.files.agreement, self.files.credentials(folder))

    def connection(
        self, role: str, name: str, rank: int = 0, domain: str = ACME
    ) -> PartyConnection:
        credentials = self.files.credentials(self.files.member(role, name, domain))
        return PartyConnection(self.files.agreement, credentials, rank, 0)

    def client(
        self,
        name: str = "alice",
        seconds: float = 30.0,
        audit: Audit = "off",
        audit_chance: float | None = None,
    ) -> RemoteDeployment:
        credentials = self.files.credentials(self.files.member("client", name))
        trios = Trios(self.files.agreement, credentials, audit, audit_chance)
        return RemoteDeployment(trios, time.monotonic() + seconds)

    def runs(self, turn: Turn, x: Any = X) -> list[RunPlan]:
        plan = self.plans[min(turn.number, 1)]
        dealt = share_input(signature_of(plan).inputs[1], x)
        return [RunPlan(NAME, plan.digest, turn, arrays) for arrays in dealt]

    def ask(self, client: RemoteDeployment, turn: Turn, x: Any = X) -> Any:
        replies = client.call(self.runs(turn, x))
        plan = self.plans[min(turn.number, 1)]
        sent = [reply.arrays for reply in replies]
        return open_outputs(signature_of(plan), sent)[0]

    def one(self, request: RunPlan, rank: int = 0, timeout: float = 10.0) -> Any:
        """One party alone is asked."""
        alice = self.connection("client", "alice", rank)
        return list(alice.call(CALL, [encode(request)], timeout=timeout))


def turn() -> Turn:
    return Turn(uuid.uuid4().hex)


def until(holds: Callable[[], bool]) -> None:
    """Wait for what will be so in a moment."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def new_id() -> str:
    return uuid.uuid4().hex


@contextmanager
def running(
    folder: Path,
    audit: Audit = "off",
    audit_chance: float = 1.0,
    *,
    provable: bool = False,
    **limits: int,
) -> Iterator[Service]:
    """Parties that are ready, until the end."""
    service = Service(folder, audit, audit_chance, provable=provable, **limits)
    try:
        yield service
    finally:
        for host in service.hosts:
            host.stop()
