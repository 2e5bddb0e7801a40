"""Models of a deployment, as owner, parties and clients speak of them.

A release is one version of a model with all that runs: its digest covers the shares of
all three parties, the plans, the tokenizer and the labels, so that it is the same for
everybody and changes with any of them.
"""

import hashlib
import json
import re
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ditto.errors import MessageError, RequestError
from ditto.files import Json, JsonValue

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_TOLD = ConfigDict(frozen=True, extra="ignore")
"""For what a party tells of itself: one of a later release may tell more."""
NAME = re.compile(
    r"[a-z0-9][a-z0-9._-]{0,62}(/[a-z0-9][a-z0-9._-]{0,62}){0,3}(:[a-z0-9._-]{1,31})?"
)
MAX_FILES = 4096
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
State = Literal["starting", "peers verified", "models agreed", "ready", "draining"]


class ReleasedFile(BaseModel):
    """A file of a model at one party."""

    model_config = _FROZEN

    path: str = Field(pattern=r"^(client|party)/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$")
    sha256: Digest
    size: int = Field(ge=0, le=1 << 40)


class Release(BaseModel):
    """One version of a model; the same for all three parties."""

    model_config = _FROZEN

    name: str = Field(pattern=rf"^{NAME.pattern}$")
    owner: str = Field(min_length=1, max_length=256)
    created: int = Field(ge=0)
    """Seconds since 1970."""
    head: str = Field(max_length=64)
    max_tokens: int = Field(ge=1, le=1 << 24)
    client: Digest
    """Of the manifest of the client's folder."""
    parties: tuple[Digest, Digest, Digest]
    """Of the manifests of the parties' folders, by rank."""
    plans: tuple[Digest, ...] = Field(max_length=MAX_FILES)
    """That the owner approves."""

    @property
    def digest(self) -> str:
        """Of all that runs."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(b"ditto release\n" + text.encode()).hexdigest()


class ServedModel(BaseModel):
    """A model that a party has, and whether all three have it."""

    model_config = _TOLD

    release: Release
    digest: Digest
    agreed: bool


class ServiceStatus(BaseModel):
    """How a party is."""

    model_config = _TOLD

    rank: int = Field(ge=0, le=2)
    trio: int = Field(ge=0)
    identity: str
    version: str
    agreement: str
    """The digest of the agreement that it was started with."""
    boot: str
    """Another after each start."""
    state: State
    peers: dict[str, bool]
    """Whether the link to each peer is up, by identity."""
    problem: str | None = None
    """Why it is not ready, if it knows."""
    running: int = 0
    waiting: int = 0
    models: tuple[ServedModel, ...] = ()
    time: float = 0.0
    """Seconds since 1970, by its clock."""


ModelT = TypeVar("ModelT", bound=BaseModel)


def parse_request(kind: type[ModelT], body: JsonValue) -> ModelT:
    """What was sent to a party; raises RequestError for anything else."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise RequestError(_wrong(kind, error)) from None


def parse_reply(kind: type[ModelT], body: JsonValue) -> ModelT:
    """What a party answered; raises MessageError for anything else."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise MessageError(_wrong(kind, error)) from None


def _wrong(kind: type[BaseModel], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{kind.__name__} has the wrong form at {place!r:.80}: {first['msg']:.200}."


def check_name(name: str) -> str:
    """The same name; raises RequestError if a model cannot have it."""
    if len(name) > 200 or not NAME.fullmatch(name):
        raise RequestError(
            f"{name[:80]!r} cannot be the name of a model: write lower-case letters, "
            f"digits, dots and dashes, with a version, as in acme/minilm:1."
        )
    return name


class BeginModel(BaseModel):
    """An owner announces a model to one party, with the files that it will get."""

    model_config = _FROZEN

    release: Release
    files: tuple[ReleasedFile, ...] = Field(min_length=1, max_length=MAX_FILES)


class Missing(BaseModel):
    """Files that a party lacks: how many bytes of each it has, by SHA-256."""

    model_config = _FROZEN

    missing: dict[Digest, int]


class PutChunk(BaseModel):
    """A piece of a file that begins at an offset; its bytes are an array."""

    model_config = _FROZEN

    model: str
    sha256: Digest
    offset: int = Field(ge=0)


class NamedRelease(BaseModel):
    """A release, by the name of the model and its digest."""

    model_config = _FROZEN

    model: str
    digest: Digest


class CommitModel(NamedRelease):
    """The owner approves the plans of a release that is complete."""

    plans: tuple[Digest, ...] = Field(max_length=MAX_FILES)


def as_body(message: BaseModel) -> Json:
    """As the JSON part of a frame."""
    body: Json = message.model_dump(mode="json")
    return body
