"""Who the parties are and how they reach each other: frozen values, checked once."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ditto.sharing import Rank

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class PartyAddress(BaseModel):
    """A party's name, as its certificate says it, and where it listens."""

    model_config = _FROZEN

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    host: str = Field(min_length=3, max_length=255, pattern=r"^[^\s:]+:[0-9]{1,5}$")


class TlsFiles(BaseModel):
    """PEM files: this party's certificate and key, and the authority it trusts."""

    model_config = _FROZEN

    certificate: Path
    key: Path
    authority: Path

    @model_validator(mode="after")
    def _files_exist(self) -> "TlsFiles":
        for path in (self.certificate, self.key, self.authority):
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

    @model_validator(mode="after")
    def _parties_differ(self) -> "LinkConfig":
        names = {party.name for party in self.parties}
        hosts = {party.host for party in self.parties}
        if len(names) != 3 or len(hosts) != 3:
            raise ValueError("The three parties need three names and three hosts.")
        return self

    @property
    def names(self) -> tuple[str, str, str]:
        """The parties' names by rank."""
        p0, p1, p2 = (party.name for party in self.parties)
        return p0, p1, p2
