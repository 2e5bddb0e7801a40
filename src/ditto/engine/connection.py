"""Opening SPU's brpc links between three processes, with or without TLS."""

import re
import socket
import threading
from collections.abc import Callable
from typing import Any

from ditto.engine.config import LinkConfig
from ditto.engine.spu_library import libspu
from ditto.errors import DittoError, PeerLostError, SetupError
from ditto.protocols.channel import peers_of

_PAYLOAD = 4 << 20
_FOREVER = 1 << 30
_RETRY_MS = 100


def connect(config: LinkConfig) -> Any:
    """The native link, connected to both peers."""
    native = libspu()
    desc = native.link.Desc()
    desc.id = "ditto"  # whether the sessions are one is found out above the link
    for party in config.parties:
        desc.add_party(party.name, party.host)
    desc.recv_timeout_ms = int(config.timeout * 1000)
    desc.http_timeout_ms = int(config.timeout * 1000)
    desc.http_max_payload_size = _PAYLOAD
    desc.brpc_channel_connection_type = "single"
    desc.connect_retry_times = _FOREVER
    desc.connect_retry_interval_ms = _RETRY_MS
    # yacl ends the whole process when an asynchronous send has failed for good or
    # when ten messages stay unread for a timeout: neither may ever happen.
    desc.throttle_window_size = 0
    desc.retry_opts.max_retry = _FOREVER
    desc.retry_opts.retry_interval_ms = _RETRY_MS
    desc.retry_opts.retry_interval_incr_ms = 0
    desc.retry_opts.max_retry_interval_ms = _RETRY_MS
    if config.tls:
        desc.enable_ssl = True
        for options in (desc.client_ssl_opts, desc.server_ssl_opts):
            options.cert.certificate_path = str(config.tls.certificate)
            options.cert.private_key_path = str(config.tls.key)
            options.verify.verify_depth = 1
            options.verify.ca_file_path = str(config.tls.authority)
    return _within(config, lambda: native.link.create_brpc(desc, int(config.rank)))


def _within(config: LinkConfig, open_link: Callable[[], Any]) -> Any:
    """Wait for the peers, but not for ever as the retries above would."""
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append(open_link())
        except Exception as failure:
            outcome.append(failure)

    thread = threading.Thread(target=attempt, name="ditto-connect", daemon=True)
    thread.start()
    thread.join(config.connect_timeout)
    if not outcome:
        raise _absence(config)
    if isinstance(outcome[0], Exception):
        if re.search(r"connect_\d", str(outcome[0])):  # heard nothing from a peer
            raise _absence(config)
        mine = config.parties[config.rank]
        raise SetupError(
            f"{mine.name} could not open its link at {mine.host}: another program may "
            f"hold the port, or a TLS file may be wrong."
        )
    return outcome[0]


def _absence(config: LinkConfig) -> DittoError:
    waited = f"{config.connect_timeout:g} s"
    for peer in peers_of(config.rank):
        address = config.parties[peer]
        if not _answers(address.host):
            return PeerLostError(
                f"{address.name} did not answer at {address.host} within {waited}. "
                f"Check that it runs, that the address is right, and that no firewall "
                f"is between.",
                peer=address.name,
            )
    return SetupError(
        f"Both peers answer on their ports, but the links did not come up within "
        f"{waited}. Check that all three parties use TLS or none does, trust the same "
        f"authority, list the parties in the same order, and can all reach each other."
    )


def _answers(host: str) -> bool:
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=2).close()
    except (OSError, OverflowError):
        return False
    return True
