"""What a party does in each call of its service."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from ditto.errors import (
    NotPermittedError,
    PeerError,
    RequestError,
    UnknownModelError,
)
from ditto.party.running import admit
from ditto.party.server.calls import Caller, Handler
from ditto.party.server.library import Library
from ditto.party.server.queue import RunQueue, Ticket
from ditto.party.store import PartyStore
from ditto.plan import stricter
from ditto.sharing import Rank
from ditto.wire import Accepted, DropState, RunPlan, RunReply, decode_request, encode
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import (
    BeginModel,
    CommitModel,
    NamedRelease,
    PutChunk,
    ServiceStatus,
    as_body,
    check_name,
    parse_request,
)
from ditto.wire.chunks import Frame
from ditto.wire.methods import (
    BEGIN_MODEL,
    CALL,
    CLIENT_FOLDER,
    COMMIT_MODEL,
    PUT_CHUNK,
    RETIRE_MODEL,
    STATUS,
    Method,
)

_DONE: Frame = ({"done": True}, {})


class Handlers:
    """The calls of one party."""

    def __init__(
        self,
        store: PartyStore,
        library: Library,
        queue: RunQueue,
        *,
        status: Callable[[], ServiceStatus],
        models_when_ready: Callable[[], dict[str, str]],
        on_gone: Callable[[str], None],
        agreement: Agreement,
        rank: Rank,
    ) -> None:
        self._store, self._library, self._queue = store, library, queue
        self._status, self._models_when_ready = status, models_when_ready
        self._on_gone, self._agreement, self._rank = on_gone, agreement, rank

    def by_method(self) -> dict[Method, Handler]:
        """Which answers which call."""
        return {
            STATUS: self._answer_status,
            CALL: self._answer_call,
            CLIENT_FOLDER: self._answer_client_folder,
            BEGIN_MODEL: self._begin_model,
            PUT_CHUNK: self._put_chunk,
            COMMIT_MODEL: self._commit_model,
            RETIRE_MODEL: self._retire_model,
        }

    def _answer_status(self, _: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        _only(frames)
        yield as_body(self._status()), {}

    # Clients

    def _answer_call(self, caller: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        request = decode_request(*_only(frames))
        if isinstance(request, DropState):
            self._store.drop_state(request.conversation, str(caller.identity))
            yield {"reply": encode(Accepted())[0]}, {}
        elif isinstance(request, RunPlan):
            ticket = self._submit(caller, request)
            caller.on_gone(lambda: self._give_up(ticket))
            for event in ticket.events():
                if isinstance(event, RunReply):
                    body, arrays = encode(event)
                    yield {"reply": body}, arrays
                else:
                    yield {"progress": event}, {}
        else:
            raise NotPermittedError(
                f"{caller.identity} may not ask for {type(request).__name__}; models "
                f"are published by their owners."
            )

    def _submit(self, caller: Caller, request: RunPlan) -> Ticket:
        """Check a run, and have it wait for its turn."""
        self._queue.remember(request.request_id)
        try:
            agreed = self._models_when_ready()
            if request.model not in agreed:
                raise UnknownModelError(
                    f"{request.model[:80]!r} is not served by all three parties; these "
                    f"are: {', '.join(sorted(agreed)) or 'none'}."
                )
            run = admit(self._store, self._audited(request), str(caller.identity))
            return self._queue.put(run, caller.deadline)
        except BaseException:
            self._queue.refuse(request.request_id)
            raise

    def _audited(self, request: RunPlan) -> RunPlan:
        """A run that is audited as the client asks for, and as was agreed at least."""
        agreed = self._agreement
        always = agreed.audit != "off" and agreed.audit_chance == 1
        audit = stricter(request.audit, agreed.audit)
        lot = None if always or audit == "off" else request.lot
        if lot is not None and not lot.fits(self._rank):
            raise RequestError(
                "The secret of this lot does not have its hash: told to the others it "
                "would look like a lie of this party. Deal lots anew."
            )
        return replace(request, audit=audit, lot=lot)

    def _give_up(self, ticket: Ticket) -> None:
        """Whoever asked has got its answer or has left."""
        left = PeerError("The client has left.", peer="client")
        if ticket.end(left) and ticket.started is None:
            self._on_gone(ticket.request_id)

    def _answer_client_folder(
        self, _: Caller, frames: Iterator[Frame]
    ) -> Iterable[Frame]:
        """A frame for each megabyte of each file, so that none is large."""
        body, _arrays = _only(frames)
        asked = parse_request(NamedRelease, body)
        files = self._library.client_folder(asked.model, asked.digest)
        for name, path in files.items():
            with path.open("rb") as file:
                while True:
                    piece = file.read(1 << 19)
                    data = np.frombuffer(piece, np.uint8)
                    yield {"file": name}, {"data": data}
                    if len(piece) < 1 << 19:
                        break
        yield _DONE

    # Owners

    def _begin_model(self, caller: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        request = parse_request(BeginModel, _only(frames)[0])
        check_name(request.release.name)
        yield as_body(self._library.begin(str(caller.identity), request)), {}

    def _put_chunk(self, caller: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        for body, arrays in frames:
            if time.monotonic() > caller.deadline:
                raise RequestError("The upload took too long for one call. Resume it.")
            if arrays.keys() != {"data"}:
                raise RequestError("A piece of a file is one array, named data.")
            piece = parse_request(PutChunk, body)
            self._library.put(str(caller.identity), piece, arrays["data"])
        yield _DONE

    def _commit_model(self, caller: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        request = parse_request(CommitModel, _only(frames)[0])
        self._library.commit(str(caller.identity), request)
        yield _DONE

    def _retire_model(self, caller: Caller, frames: Iterator[Frame]) -> Iterable[Frame]:
        body, _ = _only(frames)
        name = body.get("model")
        if not isinstance(name, str):
            raise RequestError("RetireModel names a model.")
        self._library.retire(str(caller.identity), name)
        yield _DONE


def _only(frames: Iterator[Frame]) -> Frame:
    """The one frame of a request."""
    frame = next(frames, None)
    if frame is None or next(frames, None) is not None:
        raise RequestError("This call takes one frame.")
    return frame
