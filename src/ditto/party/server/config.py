"""``party.toml``: how one organisation runs its party. Everything that the three must
agree on stands in ``deployment.toml`` instead."""

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ditto.errors import SetupError
from ditto.files import read_limited

_MAX = 64 << 10
LogLevel = Literal["debug", "info", "warning", "error"]
_ADDRESS = r"^[A-Za-z0-9.-]{1,253}:[0-9]{1,5}$"


class PartyConfig(BaseModel):
    """One party's own settings. Paths are relative to the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int = Field(ge=0, le=2)
    """Which of the three parties it is; the agreement lists them by rank."""
    trio: int = Field(default=0, ge=0)
    """The number of its trio."""
    deployment: Path = Path("deployment.toml")
    """The agreement of the three organisations."""
    credentials: Path
    """The folder with ``tls.crt`` and ``tls.key``."""
    store: Path = Path("store")
    """The folder of models; it belongs to the party alone."""
    listen_grpc: str | None = Field(default=None, pattern=_ADDRESS)
    """Where to listen, if not at the address in the agreement."""
    listen_link: str | None = Field(default=None, pattern=_ADDRESS)
    """The same for links of the two other parties."""
    listen_http: str | None = Field(default=None, pattern=_ADDRESS)
    """For operators: /health, /ready, /metrics. Nobody listens if it is left out."""
    log_level: LogLevel = "info"
    """The least grave events that are logged."""
    link_timeout: float = Field(default=20.0, ge=5.0, le=600.0)
    """Seconds until a silent or stalled peer is given up; the same at all three."""


def read_config(path: Path) -> PartyConfig:
    """The settings in a file; raises SetupError for any other content."""
    try:
        document = tomllib.loads(
            read_limited(path, _MAX, SetupError, "64 KiB").decode()
        )
        config = PartyConfig.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SetupError(f"{path}: {place}: {first['msg']}.") from None
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{path} is not TOML: {error}.") from None
    beside = path.resolve().parent
    return config.model_copy(
        update={
            name: beside / getattr(config, name)
            for name in ("deployment", "credentials", "store")
        }
    )
