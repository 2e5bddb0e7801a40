"""Three parties that stay: those of a process of this user that keeps them warm.

That process (``ditto serve --local``) holds the weights and has shared them; others of
the same user reach its parties over a Unix socket, as they would reach their own. Each
frame is one of

    hello     which models are kept?
    publish   a plan: the parties are to have it, and the weights that it needs
    call      a request to each of the three parties

and is answered by frames that tell how far it is, and one with the answer or an error.
What the process sees is what ``ditto run`` itself sees: text, weights and answers.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

import ditto.errors
from ditto.client import Signature
from ditto.errors import DittoError, MessageError, WarmProcessError
from ditto.files import Json, JsonValue, warm_socket
from ditto.fixedpoint import Array
from ditto.frames import read_frame, write_frame
from ditto.owner import signature_of
from ditto.plan import Plan
from ditto.wire import Arrays, Deployment, OnProgress, Request, decode_reply, encode
from ditto.wire.messages import ReplyT

MOST_BYTES = 1 << 30
"""Of the arrays in one frame; questions and answers are far smaller."""
_CREDENTIALS = struct.Struct("3i")


def check_peer(connection: socket.socket) -> None:
    """Raise unless the process at the other end belongs to this user."""
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = _CREDENTIALS.unpack(data)
    if user != os.geteuid():
        raise MessageError(f"The process at the socket belongs to user {user}.")


class Connection:
    """Frames to and from the process at the other end."""

    def __init__(self, connection: socket.socket) -> None:
        check_peer(connection)
        self._socket = connection
        self._stream = cast(BinaryIO, connection.makefile("rwb"))

    def send(self, body: Json, arrays: Mapping[str, Array] | None = None) -> None:
        """Send one frame."""
        write_frame(self._stream, body, arrays or {})

    def receive(self) -> tuple[Json, Arrays] | None:
        """The next frame, or None at the end."""
        return read_frame(self._stream, MOST_BYTES)

    def close(self) -> None:
        """End it, also under who waits for a frame."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()


def gather(parts: Sequence[tuple[Json, Arrays]]) -> tuple[list[Json], Arrays]:
    """Three messages as one: bodies by rank, arrays with the rank before their name."""
    arrays = {
        f"{k}/{n}": a for k, (_, each) in enumerate(parts) for n, a in each.items()
    }
    return [body for body, _ in parts], arrays


def scatter(bodies: JsonValue, arrays: Arrays) -> list[tuple[Json, Arrays]]:
    """The inverse of ``gather``, of what comes from outside."""
    if (
        not isinstance(bodies, list)
        or len(bodies) != 3
        or not all(isinstance(body, dict) for body in bodies)
    ):
        raise MessageError("A frame for three parties has three messages.")
    parts: list[tuple[Json, Arrays]] = [(body, {}) for body in bodies]
    for name, array in arrays.items():
        rank, _, own = name.partition("/")
        if rank not in ("0", "1", "2"):
            raise MessageError(f"An array is named {name[:40]!r}, after no party.")
        parts[int(rank)][1][own] = array
    return parts


class WarmDeployment(Deployment):
    """The three parties of the warm process, for one model."""

    def __init__(self, connection: Connection, identity: str, model: str) -> None:
        self._connection, self._identity = connection, identity
        self.model = model
        """What the parties call the model."""
        self._published: dict[str, Signature] = {}

    @classmethod
    def find(cls, identity: str, path: Path | None = None) -> "WarmDeployment | None":
        """The parties of the warm process, if there is one with this model."""
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plain.connect(str(path or warm_socket()))
            found = cls(Connection(plain), identity, "")
            body, _ = found._exchange({"ask": "hello", "identity": identity})
        except (OSError, DittoError):
            plain.close()
            return None
        if not isinstance(body.get("model"), str):
            found.close()
            return None
        found.model = body["model"]
        return found

    @property
    def generation(self) -> int:
        """See Deployment: when they are gone, so is this object."""
        return 0

    def publish(
        self, plan: Plan, on_stage: Callable[[str], None] = lambda _: None
    ) -> Signature:
        """Have the parties keep a plan, and what it needs of the weights."""
        if plan.digest not in self._published:
            body = {"ask": "publish", "identity": self._identity}
            arrays = {"plan": np.frombuffer(plan.to_bytes(), np.uint8)}
            self._exchange(body, arrays, on_stage=on_stage)
            self._published[plan.digest] = signature_of(plan)
        return self._published[plan.digest]

    def call(
        self,
        requests: Sequence[Request[ReplyT]],
        on_progress: OnProgress | None = None,
    ) -> list[ReplyT]:
        """See Deployment."""
        bodies, arrays = gather([encode(request) for request in requests])
        body = {"ask": "call", "identity": self._identity, "requests": bodies}
        answer, found = self._exchange(body, arrays, on_progress=on_progress)
        replies = scatter(answer.get("replies"), found)
        return [
            decode_reply(request, *reply)
            for request, reply in zip(requests, replies, strict=True)
        ]

    def close(self) -> None:
        """Leave the parties to others."""
        self._connection.close()

    def _exchange(
        self,
        body: Json,
        arrays: Mapping[str, Array] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_stage: Callable[[str], None] | None = None,
    ) -> tuple[Json, Arrays]:
        with _losing():
            self._connection.send(body, arrays)
        while True:
            with _losing():
                frame = self._connection.receive()
            if frame is None:
                raise WarmProcessError(WarmProcessError.public)
            match frame[0]:
                case {"stage": str(stage)}:
                    (on_stage or _ignore)(stage)
                case {"progress": [int(rank), dict(progress)]}:
                    (on_progress or _ignore)(rank, progress)
                case {"error": dict(error)}:
                    raise rebuilt(error)
                case _:
                    return frame


@contextlib.contextmanager
def _losing() -> Iterator[None]:
    """What fails on the way to the process, or from it, means that it is gone."""
    try:
        yield
    except (OSError, ValueError, MessageError):
        raise WarmProcessError(WarmProcessError.public) from None


def _ignore(*_: object) -> None:
    """Nobody asked how far it is."""


def described(error: DittoError) -> Json:
    """An error as data, whole: who asked is the same user."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "details": error.public_details(),
    }


def rebuilt(content: Json) -> DittoError:
    """The inverse of ``described``."""
    kind = getattr(ditto.errors, str(content.get("type")), DittoError)
    if not isinstance(kind, type) or not issubclass(kind, DittoError):
        kind = DittoError
    error: DittoError = kind.__new__(kind)
    error.args = (str(content.get("message")),)
    vars(error).update(content.get("details") or {})
    return error
