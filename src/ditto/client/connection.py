"""gRPC to one party: who it must prove to be, frames out, frames in, errors by name.

The party is verified with the authority of its own trust domain and must bear its own
name in it, whatever address it is reached at.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import grpc

from ditto.errors import DittoError, MessageError
from ditto.files import Json
from ditto.fixedpoint import Array
from ditto.trust import Credentials
from ditto.wire.agreement import Agreement
from ditto.wire.catalogue import ServiceStatus, parse_reply
from ditto.wire.chunks import MAX_MESSAGE, Frame, from_messages, to_messages
from ditto.wire.methods import STATUS, Method
from ditto.wire.status import error_of

MAX_REPLY = 1 << 30
"""Bytes of the largest answer that is read."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    (
        "grpc.min_reconnect_backoff_ms",
        10_000,
    ),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class PartyConnection:
    """One party of one trio. Safe to be used by several threads."""

    def __init__(
        self, agreement: Agreement, credentials: Credentials, rank: int, trio: int
    ) -> None:
        party = agreement.parties[rank]
        identity = agreement.party_identity(rank)
        self.name = party.trust_domain
        """As errors call it."""
        self.address = party.grpc_address(trio)
        secrets = grpc.ssl_channel_credentials(
            root_certificates=agreement.trusted_domains.pem(party.trust_domain),
            private_key=credentials.key(),
            certificate_chain=credentials.certificate,
        )
        options = (
            *_OPTIONS,
            ("grpc.ssl_target_name_override", identity.server_name),
        )
        self._channel = grpc.secure_channel(self.address, secrets, options)
        self._methods: dict[str, Any] = {}

    def call(
        self,
        method: Method,
        frames: Iterable[tuple[Json, Mapping[str, Array]]],
        *,
        timeout: float,
        on_start: Callable[[Callable[[], Any]], None] = lambda _: None,
        most_bytes: int = MAX_REPLY,
    ) -> Iterator[Frame]:
        """The frames of the answer; raises the party's error, or PeerError if it is
        not reachable.

        ``on_start`` is called with what cancels the call.
        """
        messages = (m for body, arrays in frames for m in to_messages(body, arrays))
        call = self._method(method)(messages, timeout=timeout)
        on_start(call.cancel)
        try:
            yield from from_messages(call, most_bytes)
        except grpc.RpcError as error:
            raise self._error(error) from None
        finally:
            call.cancel()

    def ask(
        self,
        method: Method,
        body: Json,
        arrays: Mapping[str, Array] | None = None,
        *,
        timeout: float = 30.0,
    ) -> Frame:
        """The one frame of an answer."""
        frames = list(self.call(method, [(body, arrays or {})], timeout=timeout))
        if len(frames) != 1:
            raise MessageError(f"{self.name} answered with {len(frames)} frames.")
        return frames[0]

    def status(self, timeout: float = 10.0) -> ServiceStatus:
        """How the party is."""
        return parse_reply(ServiceStatus, self.ask(STATUS, {}, timeout=timeout)[0])

    def close(self) -> None:
        """Let the connection go."""
        self._channel.close()

    def _method(self, method: Method) -> Any:
        if method.path not in self._methods:
            self._methods[method.path] = self._channel.stream_stream(method.path)
        return self._methods[method.path]

    def _error(self, error: Any) -> DittoError:
        metadata = [(each.key, each.value) for each in error.trailing_metadata() or ()]
        text = str(error.details() or "")
        return error_of(error.code().name, text, metadata, party=self.name)


def seconds_left(deadline: float) -> float:
    """Until a moment of the monotonic clock; a little more than nothing at least."""
    return max(deadline - time.monotonic(), 0.001)
