"""The agreement: what three organisations have settled before a party starts.

It is one ``deployment.toml``, the same for all: who the parties are, which authority
vouches for whom, where they are reached, who may publish and ask, and the limits. Its
digest covers all of it, the authorities' certificates included, and the parties compare
it when they meet. Comments, order and whether a certificate stands in the file or
beside it make no difference to the digest.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ditto.errors import AgreementError, DittoError
from ditto.files import read_limited
from ditto.plan import Audit
from ditto.sharing import RANKS, Rank
from ditto.trust import (
    Identity,
    Role,
    TrustedDomains,
    fingerprint,
    read_certificate,
)
from ditto.trust.identity import SCHEME, check_domain
from ditto.trust.peers import MAX_CERTIFICATE, check_authority
from ditto.wire.versions import in_range, version_key

FILE = "deployment.toml"
FORMAT = 1
MAX_BYTES = 128 << 10
MAX_TRIOS = 256
MAX_DOMAINS = 32
MAX_ADMITTED = 256
TRIO = "{trio}"
"""Stands in an address for the number of the trio, counted from 0."""
_FROZEN = ConfigDict(frozen=True, extra="forbid", strict=True)
_DOTS = 64
"""In one line: tomllib takes memory that grows with the square of a key's parts, and a
key of 100 kB takes all there is."""


def _domain(text: str) -> str:
    return str(_or_value_error(check_domain, text))


def _version(text: str) -> str:
    version_key(text)
    return text


def _or_value_error(check: Any, text: Any) -> Any:
    """For pydantic, which collects ValueErrors and says where they are."""
    try:
        return check(text)
    except DittoError as error:
        raise ValueError(str(error)) from None


Domain = Annotated[str, Field(max_length=128), AfterValidator(_domain)]
Version = Annotated[
    str,
    Field(max_length=32),
    AfterValidator(_version),
]
Address = Annotated[str, Field(max_length=255)]


class _Vouched(BaseModel):
    """A trust domain and the authority that vouches for its members."""

    model_config = _FROZEN

    trust_domain: Domain
    """A DNS name of the organisation; every identity of its members begins with it."""
    ca_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the certificate, to be compared by telephone."""
    ca: str = Field(max_length=MAX_CERTIFICATE)
    """The authority's certificate as PEM."""

    @model_validator(mode="after")
    def _is_the_authority(self) -> Self:
        certificate = _or_value_error(read_certificate, self.ca.encode())
        got = fingerprint(certificate)
        if got != self.ca_sha256:
            raise ValueError(
                f"the certificate of the authority of {self.trust_domain} has the "
                f"SHA-256 {got}, but ca_sha256 says {self.ca_sha256}. Ask that "
                f"organisation which is right"
            )
        _or_value_error(lambda c: check_authority(c, self.trust_domain), certificate)
        return self

    @cached_property
    def certificate_der(self) -> bytes:
        """The authority's certificate."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return read_certificate(self.ca.encode()).public_bytes(Encoding.DER)


class MemberDomain(_Vouched):
    """A trust domain of owners and clients that runs no party."""


class PartyTerms(_Vouched):
    """One organisation that computes."""

    organisation: str = Field(
        min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$"
    )
    """Its name, for people."""
    grpc: Address
    """Where owners, clients and operators reach it, with ``{trio}`` for the number."""
    link: Address
    """Where the two other parties reach it."""

    def grpc_address(self, trio: int) -> str:
        """``host:port`` of its party in a trio."""
        return self.grpc.replace(TRIO, str(trio))

    def link_address(self, trio: int) -> str:
        """``host:port`` at which its party in a trio awaits the others."""
        return self.link.replace(TRIO, str(trio))


class Limits(BaseModel):
    """What a party lets others ask of it."""

    model_config = _FROZEN

    max_request_bytes: int = Field(default=64 << 20, ge=1 << 10, le=16 << 30)
    """Of one request, all chunks together."""
    max_model_bytes: int = Field(default=16 << 30, ge=1 << 10, le=1 << 40)
    """Of one model at one party."""
    queue_length: int = Field(default=64, ge=1, le=4096)
    """Requests that wait in a trio; more are refused at once."""
    lanes: int = Field(default=4, ge=1, le=64)
    """Requests that a trio computes at the same time."""
    states_per_client: int = Field(default=16, ge=0, le=4096)
    """Texts that one client may have open to be continued."""
    state_seconds: int = Field(default=600, ge=1, le=86400)
    """After which a state that nobody continues is dropped."""
    models: int = Field(default=64, ge=1, le=4096)
    """That a party keeps."""
    deadline_seconds: int = Field(default=600, ge=1, le=86400)
    """The longest that a request may take, waiting included."""


class Versions(BaseModel):
    """Releases of Ditto that may take part, both ends included."""

    model_config = _FROZEN

    min: Version
    """The earliest."""
    max: Version
    """The latest."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if version_key(self.min) > version_key(self.max):
            raise ValueError(f"min ({self.min}) is later than max ({self.max})")
        return self

    def admit(self, version: str) -> bool:
        """Whether a release is one of them."""
        return in_range(version, self.min, self.max)


class Agreement(BaseModel):
    """What the three organisations have agreed on; see the top of this file."""

    model_config = _FROZEN

    format: Literal[1]
    """The form of this file."""
    name: str = Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$")
    """What the deployment is called."""
    trios: int = Field(default=1, ge=1, le=MAX_TRIOS)
    """How many times three parties; they are numbered from 0."""
    drain_seconds: int = Field(default=60, ge=1, le=3600)
    """How long a party that is to stop may finish what it has begun."""
    audit: Audit = "off"
    """What parties prove to each other of every run; a client may ask for more."""
    audit_chance: float = Field(default=1.0, gt=0, le=1)
    """With what chance a run is audited; below 1 clients draw it in secret."""
    owners: tuple[str, ...] = Field(default=(), max_length=MAX_ADMITTED, strict=False)
    """Identities that may publish models."""
    clients: tuple[str, ...] = Field(default=(), max_length=MAX_ADMITTED, strict=False)
    """Identities that may ask, or trust domains all of whose clients may."""
    versions: Versions
    """Releases of Ditto that may take part."""
    limits: Limits = Limits()
    """What a party lets others ask of it."""
    parties: tuple[PartyTerms, ...] = Field(min_length=3, max_length=3, strict=False)
    """By rank."""
    domains: tuple[MemberDomain, ...] = Field(
        default=(), max_length=MAX_DOMAINS, strict=False
    )
    """Trust domains of owners and clients that run no party."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        vouched = [*self.parties, *self.domains]
        for what, values in (
            ("trust domains", [each.trust_domain for each in vouched]),
            ("authorities", [each.ca_sha256 for each in vouched]),
        ):
            twice = sorted({v for v in values if values.count(v) > 1})
            if twice:
                raise ValueError(
                    f"the {what} must all differ: no organisation may vouch for "
                    f"another; {twice[0]} is there twice"
                )
        _check_addresses(self)
        known = {each.trust_domain for each in vouched}
        for text in self.owners:
            _check_admitted(text, Role.OWNER, known)
        for text in self.clients:
            _check_admitted(text, Role.CLIENT, known)
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is agreed on; the same whoever computes it."""
        content = self.model_dump(mode="json")
        if self.audit == "off":  # as before there were audits
            del content["audit"]
        if self.audit_chance == 1:
            del content["audit_chance"]
        for written, each in (
            *zip(content["parties"], self.parties, strict=True),
            *zip(content["domains"], self.domains, strict=True),
        ):
            written["ca"] = each.certificate_der.hex()
        content["domains"].sort(key=lambda each: each["trust_domain"])
        content["owners"] = sorted(set(self.owners))
        content["clients"] = sorted(set(self.clients))
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"ditto agreement\n" + text.encode()).hexdigest()

    @cached_property
    def trusted_domains(self) -> TrustedDomains:
        """The authority of each domain, of parties and of others."""
        return TrustedDomains.read(
            {
                each.trust_domain: each.certificate_der
                for each in (*self.parties, *self.domains)
            }
        )

    def party_identity(self, rank: Rank | int) -> Identity:
        """Whom the certificate of a party names, in every trio."""
        domain = self.parties[rank].trust_domain
        return Identity(domain, Role.PARTY, str(int(rank)))

    def rank_of(self, identity: Identity) -> Rank | None:
        """The rank of a party; None if the identity is no party's."""
        ranks = (rank for rank in RANKS if self.party_identity(rank) == identity)
        return next(ranks, None)

    def admits(self, identity: Identity) -> bool:
        """Whether somebody whose certificate was verified may take part at all.

        An operator is of an organisation that runs a party.
        """
        match identity.role:
            case Role.PARTY:
                return self.rank_of(identity) is not None
            case Role.OWNER:
                return str(identity) in self.owners
            case Role.CLIENT:
                return {str(identity), identity.trust_domain} & {*self.clients} != set()
            case Role.OPERATOR:
                return identity.trust_domain in {p.trust_domain for p in self.parties}


def read_agreement(path: Path) -> Agreement:
    """The agreement in a file; raises AgreementError for any other content."""
    text = read_limited(path, MAX_BYTES, AgreementError, "128 KiB")
    return parse_agreement(text, beside=path.parent, name=str(path))


def parse_agreement(
    content: bytes, *, beside: Path | None = None, name: str = FILE
) -> Agreement:
    """The agreement that a document is; ``beside`` is the folder of ``ca_file``s."""
    if len(content) > MAX_BYTES:
        raise AgreementError(
            f"{name} has {len(content)} bytes, at most {MAX_BYTES} are read. An "
            f"agreement of three parties has a few thousand."
        )
    try:
        text = content.decode()
        if any(line.count(".") > _DOTS for line in text.split("\n")):
            raise ValueError(
                f"a line has more than {_DOTS} dots; write lists with one entry a line"
            )
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise AgreementError(
            f"{name} is not TOML: {_short(str(error))}. See docs/how-to/operate.md for "
            f"one, or have one written by `ditto pki agree`."
        ) from None
    for table in _tables(document):
        _load_certificate(table, beside, name)
    return build_agreement(document, name)


def build_agreement(document: dict[str, Any], name: str = "The agreement") -> Agreement:
    """The agreement that a table is; raises AgreementError."""
    try:
        return Agreement.model_validate(document)
    except ValidationError as error:
        raise AgreementError(_in_words(name, error)) from None


def _tables(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("parties", "domains"):
        tables = document.get(key)
        if isinstance(tables, list):
            yield from (t for t in tables[:MAX_DOMAINS] if isinstance(t, dict))


def _load_certificate(table: dict[str, Any], beside: Path | None, name: str) -> None:
    """Put the content of a ``ca_file`` where the certificate itself could stand."""
    file = table.get("ca_file")
    if not isinstance(file, str):
        return
    if "ca" in table:
        raise AgreementError(f"{name} gives both ca and ca_file. Give one of them.")
    if beside is None or Path(file).name != file or file in ("", ".", ".."):
        raise AgreementError(
            f"{name} names the certificate {_short(file)!r}. Name a file in the same "
            f"folder, without a path, so that all read the same."
        )
    pem = read_limited(beside / file, MAX_CERTIFICATE, AgreementError, "16 KiB")
    del table["ca_file"]
    table["ca"] = pem.decode("ascii", "replace")


def _check_addresses(agreement: Agreement) -> None:
    patterns = [p for party in agreement.parties for p in (party.grpc, party.link)]
    for pattern in patterns:
        if pattern.count(TRIO) != 1 and agreement.trios > 1:
            raise ValueError(
                f"the address {pattern!r} needs {TRIO} once, for {agreement.trios} "
                f"trios are at different addresses, as in party-{TRIO}.org.example:7100"
            )
    addresses = [
        pattern.replace(TRIO, str(trio))
        for pattern in patterns
        for trio in range(agreement.trios)
    ]
    for address in addresses:
        check_address(address)
    if len(set(addresses)) != len(addresses):
        raise ValueError("all addresses must differ: gRPC and links, of all parties")


def check_address(address: str) -> None:
    """Raise ValueError for what is not ``host:port``."""
    host, _, port = address.rpartition(":")
    good_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16
    letters = {*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"}
    if not good_port or not 0 < len(host) <= 253 or not {*host} <= letters:
        raise ValueError(
            f"{_short(address)!r} is not an address. Write host:port with a DNS name "
            f"or an IPv4 address, as in party-{TRIO}.org.example:7100"
        )


def _check_admitted(text: str, role: Role, known: set[str]) -> None:
    if role is Role.CLIENT and not text.startswith(SCHEME):
        domain = _domain(text)
    else:
        identity: Identity = _or_value_error(Identity.parse, text)
        domain = identity.trust_domain
        if identity.role is not role:
            raise ValueError(f"{text} is listed as {role}, but it is a {identity.role}")
    if domain not in known:
        raise ValueError(
            f"{text} is admitted, but no authority is given for {domain}. Add a table "
            f"[[domains]] with trust_domain, ca_sha256 and ca"
        )


def _in_words(name: str, error: ValidationError) -> str:
    """The first thing that is wrong, and how many more."""
    details = error.errors(include_url=False, include_context=False)
    first = details[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole"
    got = "" if isinstance(first["input"], dict) else f", got {first['input']!r}"
    if first["type"] in ("missing", "value_error", "extra_forbidden"):
        got = ""
    text = first["msg"].removeprefix("Value error, ")
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    return f"{name}: {_short(place)}: {_short(text, 600)}{_short(got)}{more}."


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
