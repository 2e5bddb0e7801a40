"""gRPC around the calls of a party: who asks, may it, frames in, frames out, errors.

TLS admits whoever an authority of the agreement vouches for. That is not enough: the
authority of A could vouch for a name of B. So the certificate is verified once more,
against the authority of the domain that it claims, and the agreement and the method say
whether that identity may make the call.
"""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ditto.errors import (
    BusyError,
    DeadlineError,
    DittoError,
    MessageError,
    NotPermittedError,
    PeerIdentityError,
    RequestError,
    SetupError,
)
from ditto.party.server.logs import note
from ditto.trust import Credentials, Identity
from ditto.wire.agreement import Agreement
from ditto.wire.chunks import MAX_MESSAGE, Frame, from_messages, to_messages
from ditto.wire.methods import METHODS, SERVICE, Method
from ditto.wire.status import METADATA, status_of

MOST_WORKERS = 320
KEPT_FREE = 16
"""Calls that one identity alone cannot take up: others are still answered."""
RECEIVE_SECONDS = 60.0
"""That a request may take to arrive, and that may pass between two pieces of a file."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


@dataclass(frozen=True)
class Caller:
    """Who makes a call, and until when it wants the answer."""

    identity: Identity
    deadline: float
    """By the monotonic clock."""
    on_gone: Callable[[Callable[[], None]], None]
    """Have something called when the call is over, also if the caller has left."""


Handler = Callable[[Caller, Iterator[Frame]], Iterable[Frame]]


class CallServer:
    """A gRPC server of a party's calls."""

    def __init__(
        self,
        address: str,
        agreement: Agreement,
        credentials: Callable[[], Credentials],
        handlers: dict[Method, Handler],
    ) -> None:
        self._agreement = agreement
        workers = min(agreement.limits.queue_length + 32, MOST_WORKERS)
        self._most_of_one = workers - KEPT_FREE
        self._open: Counter[Identity] = Counter()
        self._lock = threading.Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(workers, thread_name_prefix="ditto-call"),
            options=_OPTIONS,
            maximum_concurrent_rpcs=workers,
        )
        behaviours = {
            method.name: grpc.stream_stream_rpc_method_handler(
                self._behaviour(method, handlers[method])
            )
            for method in METHODS
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, behaviours)
        self._server.add_generic_rpc_handlers((generic,))
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.set_ready(False)
        try:
            self.port = self._server.add_secure_port(
                address, _server_credentials(agreement, credentials)
            )
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise SetupError(
                f"The party cannot listen at {address}: another program may hold the "
                f"port, or the address is not this machine's. Set listen_grpc."
            )

    def start(self) -> None:
        """Take calls from now on."""
        self._server.start()

    def set_ready(self, ready: bool) -> None:
        """Tell grpc.health.v1 whether runs are taken."""
        states = health_pb2.HealthCheckResponse
        state = states.SERVING if ready else states.NOT_SERVING
        for service in ("", SERVICE):
            self._health.set(service, state)

    def stop(self, patience: float) -> None:
        """Take no more calls; those that are under way have so many seconds."""
        self._server.stop(patience).wait()

    def _behaviour(self, method: Method, handler: Handler) -> Any:
        limits = self._agreement.limits
        most = method.most_bytes or limits.max_request_bytes

        def answer(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
            caller = None
            try:
                caller = self._admit(method, context)
                self._count(caller.identity, context)
                timed = _within(messages, RECEIVE_SECONDS, each=method.is_upload)
                for body, arrays in handler(caller, _frames(timed, most)):
                    yield from to_messages(body, arrays)
            except GeneratorExit:
                raise
            except Exception as error:
                who = None if caller is None else caller.identity
                _log_refusal(method, who, error)
                code, text, described = status_of(error)
                context.set_trailing_metadata(((METADATA, described),))
                context.abort(getattr(grpc.StatusCode, code), text)

        return answer

    def _count(self, identity: Identity, context: Any) -> None:
        """One more call of an identity, until it is over."""
        with self._lock:
            if self._open[identity] >= self._most_of_one:
                raise BusyError(
                    f"{identity} has {self._open[identity]} calls open at this party. "
                    f"Wait for some of them."
                )
            self._open[identity] += 1

        def over() -> None:
            with self._lock:
                self._open[identity] -= 1
                if not self._open[identity]:
                    del self._open[identity]

        if not context.add_callback(over):  # it is over already
            over()

    def _admit(self, method: Method, context: Any) -> Caller:
        shown = context.auth_context().get("x509_pem_cert", [])
        if len(shown) != 1:
            raise PeerIdentityError("No certificate was shown.", peer="unknown")
        identity = self._agreement.trusted_domains.verify(shown[0])
        if not self._agreement.admits(identity):
            raise NotPermittedError(
                f"{identity} is not admitted by the agreement of this deployment."
            )
        if identity.role not in method.roles:
            roles = ", ".join(sorted(method.roles))
            raise NotPermittedError(
                f"{identity} may not call {method.name}; that is for: {roles}."
            )
        longest = float(self._agreement.limits.deadline_seconds)
        left = context.time_remaining()
        seconds = longest if left is None else min(left, longest)
        return Caller(identity, time.monotonic() + seconds, context.add_callback)


def _server_credentials(
    agreement: Agreement, credentials: Callable[[], Credentials]
) -> Any:
    """Certificates are read again for every handshake, so that they can be renewed."""
    authorities = agreement.trusted_domains.bundle()

    def configuration() -> Any:
        mine = credentials()
        pair = (mine.key(), mine.certificate)
        return grpc.ssl_server_certificate_configuration([pair], authorities)

    last = configuration()

    def renew() -> Any:
        nonlocal last
        try:
            last = configuration()
        except DittoError as error:
            note("certificate not read", logging.ERROR, error=str(error))
        return last

    return grpc.dynamic_ssl_server_credentials(last, renew, True)


def _frames(messages: Iterator[bytes], most_bytes: int) -> Iterator[Frame]:
    """The frames of a request. What is wrong with them is told to who sent them."""
    try:
        yield from from_messages(messages, most_bytes)
    except RequestError:
        raise
    except MessageError as error:
        raise RequestError(str(error)) from None


def _within(
    messages: Iterator[bytes], seconds: float, *, each: bool
) -> Iterator[bytes]:
    """The same messages; raises if they do not come in time, all of them or each.

    The thread that reads them ends with the call.
    """
    arrived: queue.Queue[bytes | None] = queue.Queue(maxsize=4)
    over = threading.Event()

    def put(message: bytes | None) -> None:
        while not over.is_set():
            try:
                return arrived.put(message, timeout=1.0)
            except queue.Full:
                continue
        return None

    def read() -> None:
        try:
            for message in messages:
                put(message)
                if over.is_set():
                    return
        except Exception:  # the caller has left; nobody waits any more
            put(b"")
            return
        put(None)

    threading.Thread(target=read, name="ditto-call-reader", daemon=True).start()
    end = time.monotonic() + seconds
    try:
        while True:
            try:
                message = arrived.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise DeadlineError(
                    f"The request did not arrive within {seconds:g} s."
                ) from None
            if message is None:
                return
            if message == b"":
                raise MessageError("The call ended before its request was complete.")
            yield message
            if each:
                end = time.monotonic() + seconds
    finally:
        over.set()


def _log_refusal(method: Method, who: Identity | None, error: Exception) -> None:
    """What was refused, without what it was about."""
    foreseen = isinstance(error, DittoError)
    note(
        "call refused" if foreseen else "call failed",
        logging.INFO if foreseen else logging.ERROR,
        method=method.name,
        identity=None if who is None else str(who),
        error=error.code if isinstance(error, DittoError) else type(error).__name__,
    )
