"""Who the parties are and how they reach each other: frozen values, checked once."""

from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ditto.errors import DittoError
from ditto.sharing import Rank
from ditto.trust import Identity, TrustedDomains
from ditto.trust.peers import MAX_CERTIFICATE

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_HOST = r"^[^\s:]+:[0-9]{1,5}$"


def _is_identity(text: str) -> str:
    try:
        return str(Identity.parse(text))
    except DittoError as error:
        raise ValueError(str(error)) from None


class PartyAddress(BaseModel):
    """A party: what it is called, where it is reached, and how it proves who it is."""

    model_config = _FROZEN

    name: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._-]+$")
    """As errors and logs call it."""
    host: str = Field(min_length=3, max_length=255, pattern=_HOST)
    identity: Annotated[str, AfterValidator(_is_identity)]
    """The URI in its certificate: ``spiffe://org-b.example/party/1``."""
    authority: str = Field(max_length=MAX_CERTIFICATE)
    """The certificate, as PEM, of the authority of its own trust domain."""

    @model_validator(mode="after")
    def _authority_is_one(self) -> "PartyAddress":
        try:
            _ = self.domains
        except DittoError as error:
            raise ValueError(f"The authority of {self.name}: {error}") from None
        return self

    @cached_property
    def parsed_identity(self) -> Identity:
        """Whom its certificate must name."""
        return Identity.parse(self.identity)

    @cached_property
    def domains(self) -> TrustedDomains:
        """Its own trust domain, and that alone."""
        domain = self.parsed_identity.trust_domain
        return TrustedDomains.read({domain: self.authority.encode()})


class TlsFiles(BaseModel):
    """PEM files: this party's own certificate and its key."""

    model_config = _FROZEN

    certificate: Path
    key: Path

    @model_validator(mode="after")
    def _files_exist(self) -> "TlsFiles":
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise ValueError(f"{path} is not a file.")
        return self


class LinkConfig(BaseModel):
    """One party's view of the three links."""

    model_config = _FROZEN

    rank: Rank
    parties: tuple[PartyAddress, PartyAddress, PartyAddress]
    session: str = Field(min_length=1, max_length=128)
    """The same at all three parties and never used before."""
    timeout: float = Field(default=60.0, ge=5.0, le=3600.0)
    """Seconds within which a silent or stalled peer is reported."""
    connect_timeout: float = Field(default=60.0, ge=1.0, le=3600.0)
    """Seconds to wait for the peers to come up."""
    tls: TlsFiles
    listen: str | None = Field(default=None, max_length=255, pattern=_HOST)
    """Where this party listens, if that is not the address at which others call it."""

    @model_validator(mode="after")
    def _parties_differ(self) -> "LinkConfig":
        names = {party.name for party in self.parties}
        hosts = {party.host for party in self.parties}
        domains = {party.parsed_identity.trust_domain for party in self.parties}
        if len(names) != 3 or len(hosts) != 3 or len(domains) != 3:
            raise ValueError(
                "The three parties need three names, three hosts and three trust "
                "domains: no authority may vouch for two of them."
            )
        return self

    @property
    def names(self) -> tuple[str, str, str]:
        """The parties' names by rank."""
        p0, p1, p2 = (party.name for party in self.parties)
        return p0, p1, p2
