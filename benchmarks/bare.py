"""SPU's own links between three processes, over brpc, to measure SPU by itself.

Ditto's parties never talk over them: they check that a certificate is of one of the
authorities, not whose it is. They listen where the parties did, once those are
connected.
"""

import ctypes
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ditto.errors import SetupError
from ditto.frames import Arrays, Json
from ditto.runtime import NAMES, LinkConfig, ProcessTrio, Runtimes, Session
from ditto.runtime.certificates import make_local_certificates
from ditto.runtime.spu.library import libspu

_PAYLOAD = 4 << 20
_FOREVER = 1 << 30
_AUTHORITIES = "authorities.pem"
_RETRY_MS = 100


class BareTrio(ProcessTrio):
    """Three processes that also have links of SPU's own, for data that is no secret."""

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        hosts: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = ((), (), ()),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ditto-bare-")
        super().__init__(timeout=timeout, hosts=hosts, prefixes=prefixes)
        certificates = make_local_certificates(Path(self._folder.name), NAMES)
        bundle = Path(self._folder.name) / _AUTHORITIES
        bundle.write_text("".join(each.authority for each in certificates))
        configs = [
            config.model_copy(update={"tls": certificates[config.rank].tls})
            for config in self.configs
        ]
        self.call(
            allow_bare_links,
            [{"link": config.model_dump(mode="json")} for config in configs],
        )

    def close(self) -> None:
        """See Trio."""
        super().close()
        self._folder.cleanup()


def allow_bare_links(
    session: Session, parameters: Json, _: Arrays
) -> tuple[Json, Arrays]:
    """At each party of a BareTrio: how SPU's own links are to be opened."""
    session.storage["bare config"] = LinkConfig.model_validate(parameters["link"])
    return {}, {}


def use_bare_links(
    session: Session, parameters: Json, _: Arrays
) -> tuple[Json, Arrays]:
    """Let SPU's part of plans run on links of its own, or on the session's again."""
    session.replace_runtimes(None)
    if parameters["bare"]:
        session.runtimes.keep([])  # weights are inside once
        runtimes = session.storage.get("bare runtimes") or bare_runtimes(session)
        if not isinstance(runtimes, Runtimes):
            raise TypeError("Nothing else is kept under this name.")
        session.storage["bare runtimes"] = runtimes
        session.replace_runtimes(runtimes)
    return {}, {}


def bare_runtimes(session: Session) -> Runtimes:
    """SPU straight on links of its own; see ``bare_link``."""
    _config(session)
    return Runtimes(lambda: bare_link(session), lambda: None)


def bare_link(session: Session) -> Any:
    """A link of SPU's own, to measure SPU by itself; all parties ask alike."""
    config = _config(session)
    session.begin()
    link: Any = session.storage.get("bare link")
    if link is None:
        link = session.storage["bare link"] = open_bare_link(config)
    return link.spawn()


def _config(session: Session) -> LinkConfig:
    config = session.storage.get("bare config")
    if not isinstance(config, LinkConfig):
        raise SetupError(
            "SPU has no links of its own in these parties: start them as a BareTrio, "
            "for data that is no secret."
        )
    return config


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
        options.verify.ca_file_path = str(
            config.tls.certificate.with_name(_AUTHORITIES)
        )
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
