"""SPU's links over brpc between three processes, with or without TLS."""

import ctypes
import re
import threading
import time
from datetime import timedelta
from typing import Any

from ditto.engine.config import LinkConfig
from ditto.engine.spu_library import libspu
from ditto.engine.watch import Watch
from ditto.errors import PeerError, PeerLostError, SetupError
from ditto.protocols.channel import Channel
from ditto.sharing import Rank

_PAYLOAD = 4 << 20
_FOREVER = 1 << 30
_RETRY = timedelta(milliseconds=100)


class Links:
    """One party's open links to the two others.

    Half of the configured timeout is given to a single wait; the rest is for finding
    out who is at fault, so that the report comes within the whole.
    """

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        self._context = _connect(config)
        _keep_alive(self._context)
        self.watch = Watch(
            self._context.spawn(), config.rank, config.names, config.timeout
        )

    def spawn(self) -> Any:
        """A sub-link with an order of messages of its own; all parties spawn alike."""
        return self._context.spawn()

    def channel(self) -> "LinkChannel":
        """A channel on a new sub-link."""
        return LinkChannel(self)

    def blame(self, failure: Exception, suspect: Rank | None = None) -> PeerError:
        """The error for a wait on the links that failed."""
        if suspect is None:
            suspect = _waited_for(failure, self.config.rank)
        return self.watch.diagnose(suspect)

    def close(self) -> None:
        """Wait until the peers have everything that was sent, then let go."""
        self.watch.close()
        if self.watch.gave_up:
            return  # nobody is left who could take it
        flush = threading.Thread(target=self._context.stop_link, daemon=True)
        flush.start()
        flush.join(self.config.timeout)
        if not flush.is_alive():
            _let_go(self._context)


class LinkChannel(Channel):
    """A protocol channel on one sub-link."""

    def __init__(self, links: Links) -> None:
        super().__init__(links.config.rank, links.config.names)
        self._links = links
        self._link = links.spawn()

    def _send(self, to: Rank, message: bytes) -> None:
        self._link.send_async(int(to), message)

    def _receive(self, source: Rank) -> bytes:
        try:
            with self._links.watch.waiting_for(source):
                message: bytes = self._link.recv(int(source))
        except RuntimeError as failure:
            raise self._links.blame(failure, source) from None
        return message


def _keep_alive(context: Any) -> None:
    """Bar the destructor of a link that is not closed in good order.

    It joins threads that still try to reach a peer, so with a dead peer it would hang
    whichever thread happens to drop the last reference, or the interpreter's exit.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))


def _let_go(context: Any) -> None:
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(context))


def is_timeout(failure: Exception) -> bool:
    """Whether an exception of SPU means that a peer did not answer."""
    return "Get data timeout" in str(failure)


def _waited_for(failure: Exception, rank: Rank) -> Rank:
    """Whom SPU was waiting for, from the key in its message ("...:2->0")."""
    found = re.search(r":(\d)->(\d)", str(failure))
    source = int(found.group(1)) if found else int(rank.next)
    return Rank(source) if source in (0, 1, 2) and source != rank else rank.next


def _connect(config: LinkConfig) -> Any:
    native = libspu()
    desc = native.link.Desc()
    desc.id = config.session
    for party in config.parties:
        desc.add_party(party.name, party.host)
    desc.recv_timeout_ms = int(config.timeout * 1000 / 2)
    desc.http_timeout_ms = int(config.timeout * 1000)
    desc.http_max_payload_size = _PAYLOAD
    desc.brpc_channel_connection_type = "single"
    desc.connect_retry_times = max(1, int(config.connect_timeout * 5))
    desc.connect_retry_interval_ms = 200
    # yacl ends the whole process when an asynchronous send has failed for good or
    # when ten messages stay unread for a timeout: neither may ever happen.
    desc.throttle_window_size = 0
    desc.retry_opts.max_retry = _FOREVER
    desc.retry_opts.retry_interval_ms = int(_RETRY.total_seconds() * 1000)
    desc.retry_opts.retry_interval_incr_ms = 0
    desc.retry_opts.max_retry_interval_ms = int(_RETRY.total_seconds() * 1000)
    if config.tls:
        desc.enable_ssl = True
        for options in (desc.client_ssl_opts, desc.server_ssl_opts):
            options.cert.certificate_path = str(config.tls.certificate)
            options.cert.private_key_path = str(config.tls.key)
            options.verify.verify_depth = 1
            options.verify.ca_file_path = str(config.tls.authority)
    started = time.monotonic()
    try:
        return native.link.create_brpc(desc, int(config.rank))
    except RuntimeError as failure:
        raise _connection_error(config, str(failure), started) from None


def _connection_error(config: LinkConfig, text: str, started: float) -> Exception:
    found = re.search(r"rank=(\d)|connect_(\d)", text)
    if found:
        peer = config.parties[int(found.group(1) or found.group(2))]
        waited = time.monotonic() - started
        return PeerLostError(
            f"{peer.name} did not answer at {peer.host} within {waited:.0f} s. Check "
            f"that it runs, that the address is right, that no firewall is between, "
            f"and that both sides use TLS or neither does.",
            peer=peer.name,
        )
    mine = config.parties[config.rank]
    return SetupError(
        f"{mine.name} could not open its link at {mine.host}: another program may "
        f"hold the port, or a TLS file may be wrong."
    )
