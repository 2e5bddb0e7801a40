"""A deployment of three organisations, an owner and clients, from an empty folder."""

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ditto.trust import (
    Authority,
    Credentials,
    Identity,
    Role,
    fingerprint,
    issue,
    load_credentials,
    make_authority,
)
from ditto.trust.authority import sign_for, write_issued
from ditto.wire.agreement import Agreement, parse_agreement
from ditto.wire.agreement_toml import to_toml
from ditto.wire.manifest import VERSION

ORGANISATIONS = ("org-a.example", "org-b.example", "org-c.example")
ACME = "acme.example"
OWNER = f"spiffe://{ACME}/owner/acme"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True)
class Files:
    """The files of a deployment."""

    folder: Path
    agreement: Agreement
    authorities: dict[str, Authority]
    http: tuple[int, ...]

    @property
    def deployment(self) -> Path:
        return self.folder / "deployment.toml"

    def party(self, rank: int) -> Path:
        return self.folder / f"party{rank}.toml"

    def member(self, role: str, name: str, domain: str = ACME) -> Path:
        """The credentials of somebody, issued when they are first asked for."""
        folder = self.folder / f"{role}-{name}-{domain}"
        if not folder.exists():
            identity = Identity(domain, Role(role), name)
            write_issued(folder, issue(self.authorities[domain], identity))
        return folder

    def forged(self, identity: str, signer: str) -> Path:
        """A certificate for a name of one domain, signed by another's authority."""
        folder = self.folder / f"forged-{signer}"
        issued = sign_for(self.authorities[signer], Identity.parse(identity))
        write_issued(folder, issued)
        return folder

    def credentials(self, folder: Path) -> Credentials:
        return load_credentials(folder, self.agreement.trusted_domains)


def free_tens(count: int, each: int) -> list[int]:
    """Tens of ports: the first ``each`` ports of every one are free."""
    found: list[int] = []
    rng = random.Random()
    while len(found) < count:
        ten = rng.randrange(1100, 3200)
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            for k in range(each):
                one = opened.enter_context(socket.socket())
                one.bind(("127.0.0.1", 10 * ten + k))
            found += [] if ten in found else [ten]
    return found


def make_deployment(
    folder: Path,
    trios: int = 1,
    *,
    last_version: str = VERSION,
    audit: str = "off",
    audit_chance: float = 1.0,
    **limits: Any,
) -> Files:
    """Authorities, an agreement, and a ``party.toml`` for each party, on loopback."""
    authorities = {name: make_authority(name) for name in (*ORGANISATIONS, ACME)}
    tens, http = free_tens(6, trios), free_ports(3)
    grpc, links = tens[:3], tens[3:]

    def vouched(domain: str) -> dict[str, Any]:
        return {
            "trust_domain": domain,
            "ca_sha256": fingerprint(authorities[domain].certificate),
            "ca": authorities[domain].certificate_pem().decode(),
        }

    agreement = Agreement.model_validate(
        {
            "format": 1,
            "name": "test",
            "trios": trios,
            "audit": audit,
            "audit_chance": audit_chance,
            "owners": [OWNER, f"spiffe://{ACME}/owner/other"],
            "clients": [ACME],
            "versions": {"min": VERSION, "max": last_version},
            "limits": {"deadline_seconds": 120, **limits},
            "parties": [
                {
                    **vouched(domain),
                    "organisation": domain.split(".")[0],
                    "grpc": f"127.0.0.1:{grpc[rank]}{{trio}}",
                    "link": f"127.0.0.1:{links[rank]}{{trio}}",
                }
                for rank, domain in enumerate(ORGANISATIONS)
            ],
            "domains": [vouched(ACME)],
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "deployment.toml").write_text(to_toml(agreement))
    files = Files(
        folder,
        parse_agreement(to_toml(agreement).encode()),
        authorities,
        tuple(http),
    )
    for rank, domain in enumerate(ORGANISATIONS):
        credentials = files.member("party", str(rank), domain)
        files.party(rank).write_text(
            f'rank = {rank}\ncredentials = "{credentials.name}"\n'
            f'store = "store{rank}"\nlisten_http = "127.0.0.1:{http[rank]}"\n'
        )
    return files
