"""Connections between the parties: TLS 1.3, both ends known by their certificates.

Each party opens two connections to each peer, one for messages and one for heartbeats,
and only the party that opened one sends on it. So one thread writes to a connection and
another, elsewhere, reads it; nothing is shared between them.

Security
    Both ends show certificates. Each checks that the other's names the peer it is to
    be, and that the authority of that peer's own trust domain has signed it. Who calls
    trusts that authority alone. Who is called cannot know by whom, so TLS there lets in
    what either peer's authority signed; the certificate is then checked against the
    authority of the domain that it names. So an organisation can speak neither for
    another nor with what it issued for other purposes; who stands between learns sizes
    and times.
"""

import contextlib
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from ditto.errors import (
    CertificateError,
    DittoError,
    PeerIdentityError,
    PeerLostError,
    SetupError,
)
from ditto.protocols.channel import Buffer, peers_of
from ditto.runtime.config import LinkConfig, PartyAddress
from ditto.sharing import Rank
from ditto.trust import Identity, TrustedDomains, Usage

MAIL, HEARTBEATS = b"m", b"b"
"""What a connection is for."""
_PURPOSES = (MAIL, HEARTBEATS)

_WELCOME, _READY = b"w", b"r"
_RETRY = 0.1
_LOOK = 0.2
"""Seconds between two looks whether a peer that had let us in has begun anew."""
_HANDSHAKE = 10.0
"""Seconds that a caller may take to prove who it is."""
_CALLERS = 16
"""Callers that may be proving it at a time."""
_GRACE = 1.0
"""Seconds that a party stays after it met a stranger, so that others meet it too and
do not blame this one for its absence."""


_RECORD = 1 << 14
"""Bytes of a record of TLS: what comes at once, at most."""


class Connection:
    """One end of a connection. The thread that uses it closes it; any may end it."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._stream = stream
        self._writable = select.poll()
        self._writable.register(stream, select.POLLOUT)
        self._ahead = memoryview(b"")
        """Bytes that came with those that were asked for."""

    def wait_until(self, deadline: float | None) -> None:
        """How long sending and reading may take; no deadline is for ever."""
        left = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
        self._stream.settimeout(left)

    def send(self, data: Buffer) -> None:
        """All of the data; raises OSError when the peer is gone."""
        self._stream.sendall(data)

    def read(self, size: int) -> memoryview:
        """The next bytes, exactly so many; raises OSError when no more come."""
        data = np.empty(size, np.uint8).data
        rest = self._from_ahead(data)
        while rest:
            if len(rest) >= _RECORD:
                rest = rest[self._received(rest) :]
            else:
                record = np.empty(_RECORD, np.uint8).data
                self._ahead = record[: self._received(record)]
                rest = self._from_ahead(rest)
        return data

    def _received(self, room: memoryview) -> int:
        count = self._stream.recv_into(room)
        if not count:
            raise ConnectionResetError("The peer has ended the connection.")
        return count

    def _from_ahead(self, room: memoryview) -> memoryview:
        """Fill it with what came before; what is left of it."""
        count = min(len(room), len(self._ahead))
        room[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        return room[count:]

    def takes_more(self) -> bool:
        """Whether a short message can be sent without waiting."""
        return bool(self._writable.poll(0))

    def is_ended(self) -> bool:
        """Whether the peer has let go; of connections on which it sends nothing."""
        readable = select.poll()
        readable.register(self._stream, select.POLLIN)
        return bool(readable.poll(0))

    def finish(self) -> None:
        """Nothing more is sent; wait until the peer has read all and let go."""
        self._shut(socket.SHUT_WR)
        self._stream.recv(1)

    def end(self) -> None:
        """Nothing more is sent or read, so a thread that does either stops."""
        with contextlib.suppress(OSError):  # the peer was faster
            self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        # The stream's own shutdown would go on in plain text.
        socket.socket.shutdown(self._stream, how)

    def close(self) -> None:
        """Let the connection go; what was sent still arrives."""
        self._stream.close()


_Ends = dict[tuple[Rank, bytes], Connection]
"""Connections to the peers, or from them, by what they are for."""


@dataclass(frozen=True)
class PeerConnections:
    """What a party has to and from one peer."""

    mail_to: Connection
    mail_from: Connection
    heartbeats_to: Connection
    heartbeats_from: Connection

    def end(self) -> None:
        """End all of them."""
        for to_peer in (self.mail_to, self.heartbeats_to):
            to_peer.end()
        for from_peer in (self.mail_from, self.heartbeats_from):
            from_peer.end()


def connect(config: LinkConfig) -> dict[Rank, PeerConnections]:
    """Connections to and from both peers, within the time given for it."""
    deadline = time.monotonic() + config.connect_timeout
    with contextlib.ExitStack() as unless_up:
        with _Listener(config) as listener:
            callers = _Callers(config, deadline)
            unless_up.callback(callers.close)
            callers.call_all()
            while not listener.wait(min(deadline, time.monotonic() + _LOOK)):
                listener.check(deadline)
                callers.call_all()
            outward, inward = callers.call_all(), listener.take()
            for connection in inward.values():
                unless_up.callback(connection.close)
            _wait_for_ready(config, outward, inward, deadline)
        unless_up.pop_all()
    return {
        peer: PeerConnections(
            mail_to=outward[peer, MAIL],
            mail_from=inward[peer, MAIL],
            heartbeats_to=outward[peer, HEARTBEATS],
            heartbeats_from=inward[peer, HEARTBEATS],
        )
        for peer in peers_of(config.rank)
    }


def _wait_for_ready(
    config: LinkConfig, outward: _Ends, inward: _Ends, deadline: float
) -> None:
    """Until both peers have all of their connections: from then on heartbeats come."""
    for ends in (outward, inward):
        for (peer, _), connection in ends.items():
            try:
                connection.wait_until(deadline)
                if ends is outward:
                    connection.send(_READY)
                else:
                    connection.read(len(_READY))
                connection.wait_until(None)
            except OSError:
                raise _not_up(config, peer) from None


class _Listener:
    """Where this party listens until both peers have come in."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        peers = {peer: config.parties[peer] for peer in peers_of(config.rank)}
        self._domains = TrustedDomains(
            {
                domain: authority
                for peer in peers.values()
                for domain, authority in peer.domains.authorities.items()
            }
        )
        self._context = _context(config, ssl.PROTOCOL_TLS_SERVER, self._domains)
        self._context.num_tickets = 0  # nobody would read them
        self._ranks = {each.parsed_identity: peer for peer, each in peers.items()}
        self._inside: _Ends = {}
        self._closed = False
        self._changed = threading.Condition()
        self._room = threading.BoundedSemaphore(_CALLERS)
        mine = config.parties[config.rank]
        host = config.listen or mine.host
        try:
            self._socket = socket.create_server(_place(host))
        except (OSError, OverflowError, UnicodeError) as error:
            raise SetupError(
                f"{mine.name} could not listen at {host}: another program may "
                f"hold the port, or the address is not this machine's ({error})."
            ) from None
        threading.Thread(target=self._open, name="ditto-listener", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            for connection in self._inside.values():
                connection.close()
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()

    def _late(self) -> set[tuple[Rank, bytes]]:
        due = {(peer, use) for peer in self._ranks.values() for use in _PURPOSES}
        return due - self._inside.keys()

    def wait(self, deadline: float) -> bool:
        """Whether both peers have come in by then."""
        with self._changed:
            patience = max(0.0, deadline - time.monotonic())
            return self._changed.wait_for(lambda: not self._late(), patience)

    def check(self, deadline: float) -> None:
        """Raise if the time is over and a peer has not come in."""
        with self._changed:
            if self._late() and time.monotonic() >= deadline:
                late, _ = min(self._late())
                raise _not_up(self._config, late)

    def take(self) -> _Ends:
        """The connections of both peers."""
        with self._changed:
            inside, self._inside = self._inside, {}
            return inside

    def _open(self) -> None:
        while not self._closed:
            self._room.acquire()
            try:
                caller, _ = self._socket.accept()
            except OSError:  # closed, or the machine is short of something
                self._room.release()
                time.sleep(_RETRY)
                continue
            admit = partial(self._admit, caller)
            threading.Thread(target=admit, name="ditto-listener", daemon=True).start()

    def _admit(self, caller: socket.socket) -> None:
        try:
            with contextlib.ExitStack() as unless_welcome:
                unless_welcome.enter_context(caller)
                caller.settimeout(_HANDSHAKE)
                stream = self._context.wrap_socket(caller, server_side=True)
                unless_welcome.enter_context(stream)
                peer = self._ranks[_identity(stream, self._domains, Usage.CLIENT)]
                purpose = stream.recv(1)
                if purpose not in _PURPOSES:
                    raise ValueError("No party asks for that.")
                connection = Connection(stream)
                connection.send(_WELCOME)
                unless_welcome.pop_all()
        except (OSError, ValueError, KeyError, CertificateError):
            return  # a stranger, or a peer that will try again
        finally:
            self._room.release()
        with self._changed:
            before = self._inside.pop((peer, purpose), None)
            late = connection if self._closed else before
            if late is not None:
                late.close()
            if not self._closed:
                self._inside[peer, purpose] = connection
                self._changed.notify_all()


class _Callers:
    """Connections to both peers.

    A peer that gives up and begins anew ends those it had let in. It is called again,
    so that parties which come up at different times meet.
    """

    def __init__(self, config: LinkConfig, deadline: float) -> None:
        self._config, self._deadline = config, deadline
        peers = peers_of(config.rank)
        self._contexts = {
            peer: _context(
                config, ssl.PROTOCOL_TLS_CLIENT, config.parties[peer].domains
            )
            for peer in peers
        }
        self._due = [(peer, use) for peer in peers for use in _PURPOSES]
        self._seen: set[Rank] = set()
        self._connections: _Ends = {}

    def call_all(self) -> _Ends:
        """Call whoever was not called yet or has let go, until all have let us in."""
        for each, connection in list(self._connections.items()):
            if connection.is_ended():
                self._connections.pop(each).close()
        while pending := [each for each in self._due if each not in self._connections]:
            for peer, purpose in pending:
                made = self._call(peer, purpose)
                if made is not None:
                    self._connections[peer, purpose] = made
            if len(self._connections) < len(self._due):
                time.sleep(_RETRY)
        return self._connections

    def close(self) -> None:
        """Let all of them go."""
        for connection in self._connections.values():
            connection.close()

    def _call(self, peer: Rank, purpose: bytes) -> Connection | None:
        config = self._config
        address, left = config.parties[peer], self._deadline - time.monotonic()
        if left <= 0:
            known = peer in self._seen
            raise _not_up(config, peer) if known else _absent(config, peer)
        try:
            plain = socket.create_connection(
                _place(address.host), timeout=min(left, _HANDSHAKE)
            )
            self._seen.add(peer)
            return _introduce(plain, self._contexts[peer], address, purpose)
        except (ssl.SSLCertVerificationError, CertificateError) as error:
            time.sleep(min(left, _GRACE))
            raise _stranger(address, error) from None
        except (OSError, OverflowError, UnicodeError):
            return None  # it will listen later, or has just ended another session


def _introduce(
    plain: socket.socket, context: ssl.SSLContext, peer: PartyAddress, purpose: bytes
) -> Connection:
    """The connection, if who answers is that peer and lets us in."""
    with contextlib.ExitStack() as unless_welcome:
        unless_welcome.enter_context(plain)
        # the name helps those who pass TLS on unopened; it is not what is checked
        name = peer.parsed_identity.server_name
        stream = context.wrap_socket(plain, server_hostname=name)
        unless_welcome.enter_context(stream)
        _identity(stream, peer.domains, Usage.SERVER, peer.parsed_identity)
        connection = Connection(stream)
        connection.send(purpose)
        if connection.read(len(_WELCOME)) != _WELCOME:
            raise ConnectionResetError("The peer did not let us in.")
        unless_welcome.pop_all()
        return connection


def _context(config: LinkConfig, side: int, domains: TrustedDomains) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # certificates name parties, not hosts
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cadata=domains.bundle().decode())
        # A password, though none is needed: OpenSSL would ask the terminal for one.
        context.load_cert_chain(config.tls.certificate, config.tls.key, password="")
    except (OSError, ValueError) as error:
        raise SetupError(
            f"The TLS files of {config.names[config.rank]} cannot be used ({error}). "
            f"Give PEM files: its certificate, and the key of that certificate without "
            f"a password."
        ) from None
    return context


def _identity(
    stream: ssl.SSLSocket,
    domains: TrustedDomains,
    usage: Usage,
    expected: Identity | None = None,
) -> Identity:
    """Who is at the other end; raises CertificateError if that is not proven."""
    shown = stream.getpeercert(binary_form=True) or b""
    return domains.verify(shown, usage=usage, expected=expected)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _stranger(address: PartyAddress, error: Exception) -> DittoError:
    name = address.name
    if isinstance(error, ssl.SSLCertVerificationError):
        why = (
            f"its certificate is not one that the authority of "
            f"{address.parsed_identity.trust_domain} vouches for "
            f"({error.verify_message})."
        )
    else:
        why = str(error)
    return PeerIdentityError(
        f"The process at {address.host} did not prove that it is {name}: {why} Check "
        f"the addresses in the configuration and the certificates.",
        peer=name,
    )


def _absent(config: LinkConfig, peer: Rank) -> DittoError:
    address = config.parties[peer]
    return PeerLostError(
        f"{address.name} did not answer at {address.host} within "
        f"{config.connect_timeout:g} s. Check that it runs, that the address is right, "
        f"and that no firewall is between.",
        peer=address.name,
    )


def _not_up(config: LinkConfig, peer: Rank) -> DittoError:
    return SetupError(
        f"{config.names[peer]} was there, but no connection with it came up "
        f"within {config.connect_timeout:g} s. Check that all three parties list the "
        f"same authorities, and the same names as the certificates do, and can all "
        f"reach each other."
    )
