"""Opening SPU's brpc links between three processes, with or without TLS."""

import re
import time
from typing import Any

from ditto.engine.config import LinkConfig
from ditto.engine.spu_library import libspu
from ditto.errors import DittoError, PeerLostError, SetupError

_PAYLOAD = 4 << 20
_FOREVER = 1 << 30
_RETRY_MS = 100


def connect(config: LinkConfig) -> Any:
    """The native link, connected to both peers."""
    native = libspu()
    desc = native.link.Desc()
    desc.id = config.session
    for party in config.parties:
        desc.add_party(party.name, party.host)
    desc.recv_timeout_ms = int(config.timeout * 1000)
    desc.http_timeout_ms = int(config.timeout * 1000)
    desc.http_max_payload_size = _PAYLOAD
    desc.brpc_channel_connection_type = "single"
    desc.connect_retry_times = max(1, int(config.connect_timeout * 5))
    desc.connect_retry_interval_ms = 200
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
    started = time.monotonic()
    try:
        return native.link.create_brpc(desc, int(config.rank))
    except RuntimeError as failure:
        raise _refusal(config, str(failure), time.monotonic() - started) from None


def _refusal(config: LinkConfig, text: str, waited: float) -> DittoError:
    found = re.search(r"rank=(\d)|connect_(\d)", text)
    if found:
        peer = config.parties[int(found.group(1) or found.group(2))]
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
