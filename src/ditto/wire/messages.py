"""The verbs of a party: what it can be asked and what it answers, as typed data.

A message travels as JSON and arrays. What arrives is checked against the type of the
message before anyone looks at it: unknown verbs, missing or unknown fields and values
of another type are refused.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ditto.errors import MessageError, RequestError
from ditto.files import Json, JsonValue
from ditto.fixedpoint import Array
from ditto.plan import Audit

Arrays = dict[str, Array]

_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid", strict=False)
_ARRAYS = "arrays"
_AUDIT = ("audit", "lot")
LOT_BYTES = 32
_Hex = Annotated[str, Field(pattern=f"^[0-9a-f]{{{2 * LOT_BYTES}}}$")]


class Message:
    """Data that goes to a party or comes from it."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG


ReplyT = TypeVar("ReplyT", bound=Message)


class Request(Message, Generic[ReplyT]):
    """What a party can be asked; its type says what the party answers."""


# Replies


@dataclass(frozen=True)
class Accepted(Message):
    """It was done."""


@dataclass(frozen=True)
class PlanAccepted(Message):
    """The digest of the plan that the party read."""

    digest: str


@dataclass(frozen=True, eq=False)
class RunReply(Message):
    """One party's part of the answer, and what the run cost this party."""

    steps: tuple[tuple[int, int, float], ...]
    """For each step: bytes sent, rounds, seconds."""
    seconds: float
    cpu: float
    """Seconds of all threads."""
    waiting: float
    """Seconds of waiting for peers."""
    copies: float
    """Seconds of copying messages."""
    inside: float
    """Seconds inside steps."""
    arrays: Arrays = field(repr=False)
    """Of each output, by its number: the party's summand and a hash of the next
    party's (``Revealed``), or the whole of what is public; and the party's word of the
    range check, if the plan has one."""
    audit: tuple[int, int, float] | None = None
    """Bytes sent, rounds and seconds of the proofs, if there were any."""


@dataclass(frozen=True)
class PartyStatus(Message):
    """What a party keeps."""

    models: dict[str, tuple[str, ...]]
    """Digests of the plans that the owner approved, by model."""
    plans: tuple[str, ...]
    """Digests of the plans that the party has."""
    weights: int
    """Bytes of weight shares."""
    states: int
    """Conversations whose state is kept."""
    peak_memory: int
    """The most bytes that the party's process has held so far."""


# Requests


@dataclass(frozen=True)
class RegisterModel(Request[Accepted]):
    """Who owns a model, and which plans may run with its weights and states.

    The same owner may approve further plans later; another owner is refused.
    """

    model: str
    owner: str
    plans: tuple[str, ...]
    """Digests."""
    continues: tuple[tuple[str, str], ...] = ()
    """Pairs of a plan and one whose state it may continue, both approved."""


@dataclass(frozen=True)
class PutPlan(Request[PlanAccepted]):
    """A plan that the owner of the model has approved, as a file."""

    model: str
    plan: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class PutWeights(Request[Accepted]):
    """Shares of some weights of a model, in the encodings that a plan uses."""

    model: str
    plan: str
    values: tuple[int, ...]
    """Which values of the plan: encodings of inputs that are weights."""
    arrays: Arrays = field(repr=False)


@dataclass(frozen=True)
class Turn:
    """Where a conversation stands: after so many runs of it, 0 before the first.

    A party keeps the state of the last turn and of the one before it, so that a run
    which failed at some party is tried again from the same turn.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    conversation: str
    number: int = 0

    @property
    def next(self) -> "Turn":
        """After one more run."""
        return Turn(self.conversation, self.number + 1)


@dataclass(frozen=True)
class Lot:
    """What one party gets of the client's choice whether a run is audited."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    secret: _Hex = field(repr=False)
    """Told to the other parties after the run."""
    digests: tuple[_Hex, _Hex, _Hex]
    """Of the secrets of all three (``lot_digest``)."""

    def fits(self, rank: int) -> bool:
        """Whether this is what the party of a rank may be asked to tell."""
        return lot_digest(bytes.fromhex(self.secret)) == self.digests[rank]


def lot_digest(secret: bytes | bytearray) -> str:
    """SHA-256 of the secret of a lot."""
    return hashlib.sha256(secret).hexdigest()


@dataclass(frozen=True, eq=False)
class RunPlan(Request[RunReply]):
    """Run a plan with a model's weights on the client's shares."""

    model: str
    plan: str
    turn: Turn | None = None
    """From where a plan continues or begins a conversation, if it keeps state."""
    arrays: Arrays = field(default_factory=dict, repr=False)
    request_id: str = ""
    """The same at all three parties and never used again; masks are bound to it."""
    audit: Audit = "off"
    """What the parties prove to each other before they answer."""
    lot: Lot | None = None
    """They prove it if the three lots say so; None: always."""


@dataclass(frozen=True)
class DropState(Request[Accepted]):
    """Free the state of a conversation that will not be continued."""

    conversation: str


@dataclass(frozen=True)
class Status(Request[PartyStatus]):
    """What does the party keep?"""


AnyRequest = Request[Any]
REQUESTS: dict[str, type[AnyRequest]] = {
    verb.__name__: verb
    for verb in (RegisterModel, PutPlan, PutWeights, RunPlan, DropState, Status)
}
"""Every verb of the service, by name."""


def reply_type(request: type[Request[ReplyT]]) -> type[ReplyT]:
    """What a verb is answered with."""
    bases: tuple[object, ...] = getattr(request, "__orig_bases__", ())
    (reply,) = (get_args(base)[0] for base in bases if get_args(base))
    answered: type[ReplyT] = reply
    return answered


# As JSON and arrays

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind)
    for verb in REQUESTS.values()
    for kind in (verb, reply_type(verb))
}


def encode(message: Message) -> tuple[Json, Arrays]:
    """A message as JSON and arrays; the audit is told if there is one."""
    body: Json = {}
    arrays: Arrays = {}
    for each in fields(message):  # type: ignore[arg-type]  # messages are dataclasses
        value = getattr(message, each.name)
        if each.name in _AUDIT and value == each.default:
            continue
        if each.name == _ARRAYS:
            arrays |= value
        elif isinstance(value, bytes):
            arrays[each.name] = np.frombuffer(value, np.uint8)
        elif isinstance(value, Turn | Lot):
            body[each.name] = vars(value)
        else:
            body[each.name] = value
    return {"verb": type(message).__name__, "fields": body}, arrays


def decode_request(body: Mapping[str, JsonValue], arrays: Arrays) -> AnyRequest:
    """A request from outside; raises RequestError for what is none."""
    verb = body.get("verb")
    if not isinstance(verb, str) or verb not in REQUESTS:
        raise RequestError(
            f"A party cannot be asked for {verb!r}; it knows {', '.join(REQUESTS)}."
        )
    try:
        return _decode(REQUESTS[verb], body.get("fields"), arrays)
    except MessageError as error:
        raise RequestError(str(error)) from None


def decode_reply(
    request: Request[ReplyT], body: Mapping[str, JsonValue], arrays: Arrays
) -> ReplyT:
    """The reply to a request, from a party; raises MessageError for any other."""
    expected = reply_type(type(request))
    if body.get("verb") != expected.__name__:
        raise MessageError(
            f"A party answered {type(request).__name__} with {body.get('verb')!r} "
            f"instead of {expected.__name__}."
        )
    return _decode(expected, body.get("fields"), arrays)


MessageT = TypeVar("MessageT", bound=Message)


def _decode(kind: type[MessageT], body: object, arrays: Arrays) -> MessageT:
    if not isinstance(body, Mapping):
        raise MessageError(f"{kind.__name__} came without fields.")
    values = dict(body)
    for each in fields(kind):  # type: ignore[arg-type]  # messages are dataclasses
        if each.name == _ARRAYS:
            values[_ARRAYS] = arrays
        elif each.type is bytes and each.name in arrays:
            values[each.name] = arrays[each.name].tobytes()
    try:
        message: MessageT = _ADAPTERS[kind.__name__].validate_python(values)
        return message
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise MessageError(
            f"{kind.__name__} has the wrong form at {place!r}: {first['msg']}."
        ) from None
