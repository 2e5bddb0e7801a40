"""SPU's own links between three processes, over brpc, to measure SPU by itself.

Ditto's parties do not talk over them. They listen where the parties did, once those
are connected.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from ditto.engine.config import LinkConfig
from ditto.engine.spu_library import libspu
from ditto.errors import SetupError

_PAYLOAD = 4 << 20
_FOREVER = 1 << 30
_RETRY_MS = 100


def open_bare_link(config: LinkConfig) -> Any:
    """A link of SPU's own, connected to both peers."""
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
    desc.enable_ssl = True
    for options in (desc.client_ssl_opts, desc.server_ssl_opts):
        options.cert.certificate_path = str(config.tls.certificate)
        options.cert.private_key_path = str(config.tls.key)
        options.verify.verify_depth = 1
        options.verify.ca_file_path = str(config.tls.authority)
    link = _within(config, lambda: native.link.create_brpc(desc, int(config.rank)))
    _keep_alive(link)
    return link


def _within(config: LinkConfig, open_link: Callable[[], Any]) -> Any:
    """Wait for the peers, but not for ever as the retries above would."""
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append(open_link())
        except RuntimeError as failure:
            outcome.append(failure)

    thread = threading.Thread(target=attempt, name="ditto-bare", daemon=True)
    thread.start()
    thread.join(config.connect_timeout)
    if not outcome or isinstance(outcome[0], Exception):
        raise SetupError(
            f"SPU's own links did not come up within {config.connect_timeout:g} s."
        )
    return outcome[0]


def _keep_alive(link: Any) -> None:
    """Bar the destructor: it joins threads that may still try to reach a dead peer."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(link))
