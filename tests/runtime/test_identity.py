"""Who may speak for a party: its certificate, and the keys agreed behind it."""

import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from ditto.errors import DittoError, PeerIdentityError, SetupError
from ditto.fixedpoint import Ring
from ditto.protocols import agree, memory_channels, party
from ditto.runtime import NAMES, LinkConfig, TlsFiles
from ditto.runtime.certificates import LocalCertificate, make_local_certificates
from ditto.runtime.connection import PeerConnections, connect
from ditto.sharing import RANKS, Rank
from ditto.trust import Identity, Issued, Role, issue, make_authority
from ditto.trust.authority import sign_for, write_issued

from .parties import close, configs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalCertificate, ...]:
    return make_local_certificates(tmp_path_factory.mktemp("certificates"), NAMES)


@pytest.fixture
def meet() -> Iterator[Callable[..., list[Any]]]:
    """What each of three parties with files gets: its lines, or an error."""
    met: list[Any] = []

    def all_join(
        files: Sequence[LocalCertificate],
        shown: Sequence[TlsFiles] | None = None,
        patience: float = 20.0,
    ) -> list[Any]:
        given = configs(files, shown, connect_timeout=patience)
        with ThreadPoolExecutor(3) as pool:
            met.extend(pool.map(join, given))
        return met

    yield all_join
    close(mine for mine in met if isinstance(mine, dict))


def join(config: LinkConfig) -> dict[Rank, PeerConnections] | DittoError:
    try:
        return connect(config)
    except DittoError as error:
        return error


def test_each_party_hears_each_other_on_a_line_of_its_own(
    files: tuple[LocalCertificate, ...], meet: Callable[..., list[Any]]
) -> None:
    met = meet(files)
    for sender in RANKS:
        for to in RANKS:
            if sender != to:
                met[sender][to].mail_to.send(b"mail %d%d" % (sender, to))
                met[sender][to].heartbeats_to.send(b"beat %d%d" % (sender, to))
    for sender in RANKS:
        for to in RANKS:
            if sender != to:
                lines = met[to][sender]
                assert bytes(lines.mail_from.read(7)) == b"mail %d%d" % (sender, to)
                assert bytes(lines.heartbeats_from.read(7)) == b"beat %d%d" % (
                    sender,
                    to,
                )
    ended = met[0][Rank.P1].mail_to
    ended.end()
    with pytest.raises((ssl.SSLError, BrokenPipeError)):
        ended.send(b"in the clear?")
    with pytest.raises(OSError, match="ended"):
        met[1][Rank.P0].mail_from.read(1)


def played_by(
    files: Sequence[LocalCertificate], bob: LocalCertificate | TlsFiles
) -> list[TlsFiles]:
    """What the parties show if somebody plays bob."""
    tls = bob.tls if isinstance(bob, LocalCertificate) else bob
    return [files[0].tls, tls, files[2].tls]


def is_refused_as_bob(met: list[Any], why: str) -> None:
    """Both who call find out; and he himself is let in nowhere."""
    for rank in (0, 2):
        assert isinstance(met[rank], PeerIdentityError), met[rank]
        assert met[rank].peer == "bob"
        assert why in str(met[rank])
    assert isinstance(met[1], DittoError)


def test_a_party_with_anothers_certificate_is_refused(
    files: tuple[LocalCertificate, ...], meet: Callable[..., list[Any]]
) -> None:
    met = meet(files, played_by(files, files[2]), patience=3)  # carol plays bob as well
    is_refused_as_bob(met, "not one that the authority of bob.localhost vouches for")


def test_another_authority_of_the_same_domain_is_refused(
    files: tuple[LocalCertificate, ...], meet: Callable[..., list[Any]], tmp_path: Path
) -> None:
    strange = make_local_certificates(tmp_path, NAMES)[1]
    met = meet(files, played_by(files, strange), patience=3)
    is_refused_as_bob(met, "not one that the authority of bob.localhost vouches for")


@pytest.fixture(scope="module")
def forged(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[tuple[LocalCertificate, ...], dict[str, TlsFiles]]:
    """Three parties; and certificates that an authority of them signed besides."""
    folder = tmp_path_factory.mktemp("forged")
    signers = {name: make_authority(f"{name}.localhost") for name in NAMES}
    bob = Identity("bob.localhost", Role.PARTY, "1")
    members = []
    for rank, (name, authority) in enumerate(signers.items()):
        identity = Identity(authority.trust_domain, Role.PARTY, str(rank))
        tls = _kept(folder / name, issue(authority, identity))
        pem = authority.certificate_pem().decode()
        members.append(LocalCertificate(tls, str(identity), pem))
    others = {
        "bob, signed by alice's": sign_for(signers["alice"], bob),
        "bob, signed by carol's": sign_for(signers["carol"], bob),
        "another party of bob's": issue(
            signers["bob"], Identity("bob.localhost", Role.PARTY, "0")
        ),
        "a client of bob's": issue(
            signers["bob"], Identity("bob.localhost", Role.CLIENT, "1")
        ),
    }
    return tuple(members), {
        name: _kept(folder / f"other-{k}", issued)
        for k, (name, issued) in enumerate(others.items())
    }


def _kept(folder: Path, issued: Issued) -> TlsFiles:
    write_issued(folder, issued)
    return TlsFiles(certificate=folder / "tls.crt", key=folder / "tls.key")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bob, signed by alice's", "not one that the authority of bob.localhost"),
        ("bob, signed by carol's", "not one that the authority of bob.localhost"),
        ("another party of bob's", "bears another name"),
        ("a client of bob's", "purpose"),
    ],
)
def test_only_bobs_authority_vouches_for_bob(
    forged: tuple[tuple[LocalCertificate, ...], dict[str, TlsFiles]],
    meet: Callable[..., list[Any]],
    name: str,
    why: str,
) -> None:
    files, others = forged
    met = meet(files, played_by(files, others[name]), patience=3)
    is_refused_as_bob(met, why)


@pytest.mark.parametrize("name", ["bob, signed by carol's", "another party of bob's"])
def test_a_caller_is_checked_behind_tls(
    forged: tuple[tuple[LocalCertificate, ...], dict[str, TlsFiles]], name: str
) -> None:
    """TLS takes what either peer's authority has signed; the party then does not."""
    files, others = forged
    given = configs(files, connect_timeout=20)
    host, port = given[0].parties[0].host.split(":")
    caller = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    caller.check_hostname = False
    caller.load_verify_locations(cadata=files[0].authority)
    caller.load_cert_chain(others[name].certificate, others[name].key)
    with ThreadPoolExecutor(3) as pool:
        joined = [pool.submit(connect, given[0])]
        with caller.wrap_socket(_knock((host, int(port)))) as stream:
            assert stream.version() == "TLSv1.3"
            stream.sendall(b"m")
            assert _welcome(stream) == b""  # though the handshake was good
        joined += [pool.submit(connect, config) for config in given[1:]]
        close(lines.result() for lines in joined)


def _welcome(stream: ssl.SSLSocket) -> bytes:
    try:
        return stream.recv(1)
    except (ConnectionResetError, ssl.SSLEOFError):
        return b""


def test_the_same_caller_with_its_own_certificate_is_welcome(
    forged: tuple[tuple[LocalCertificate, ...], dict[str, TlsFiles]],
    meet: Callable[..., list[Any]],
) -> None:
    met = meet(forged[0])
    assert [len(mine) for mine in met] == [2, 2, 2]


def test_strangers_at_the_door_do_not_keep_the_parties_apart(
    files: tuple[LocalCertificate, ...],
) -> None:
    """One says nothing, one talks nonsense, one has no certificate, one leaves."""
    given = configs(files)
    address = given[0].parties[0].host.split(":")
    place = address[0], int(address[1])
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(connect, given[0])
        strangers = [_knock(place) for _ in range(4)]
        strangers[1].sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anonymous.load_verify_locations(cadata=files[0].authority)
        anonymous.check_hostname = False
        with (
            anonymous.wrap_socket(strangers[2]) as stranger,
            pytest.raises(ssl.SSLError, match="certificate required"),
        ):
            stranger.recv(1)
        strangers[3].close()
        met = [*pool.map(connect, given[1:]), first.result()]
    assert [set(mine) for mine in met] == [
        {Rank.P0, Rank.P2},
        {Rank.P0, Rank.P1},
        {Rank.P1, Rank.P2},
    ]
    close(met)
    for stranger in strangers[:2]:
        stranger.close()


def _knock(place: tuple[str, int]) -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection(place, timeout=10)
        except ConnectionRefusedError:
            threading.Event().wait(0.05)  # alice has not come yet
    raise AssertionError("Nobody listens.")


def test_older_protocols_are_refused(files: tuple[LocalCertificate, ...]) -> None:
    given = configs(files)
    host, port = given[0].parties[0].host.split(":")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.load_verify_locations(cadata=files[0].authority)
    old.load_cert_chain(files[1].tls.certificate, files[1].tls.key)
    with ThreadPoolExecutor(3) as pool:
        joined = [pool.submit(connect, given[0])]
        with (
            _knock((host, int(port))) as plain,
            pytest.raises(ssl.SSLError, match="alert protocol version"),
        ):
            old.wrap_socket(plain)
        joined += [pool.submit(connect, config) for config in given[1:]]
        met = [lines.result() for lines in joined]
    assert [len(mine) for mine in met] == [2, 2, 2]
    close(met)


def test_a_key_with_a_password_is_refused_without_asking(
    files: tuple[LocalCertificate, ...], tmp_path: Path
) -> None:
    key = load_pem_private_key(files[0].tls.key.read_bytes(), password=None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    (tmp_path / "key").write_bytes(locked)
    wrong = files[0].tls.model_copy(update={"key": tmp_path / "key"})
    with pytest.raises(SetupError, match="without a password"):
        connect(configs(files, [wrong] * 3)[0])


def test_files_that_do_not_fit_are_said(
    files: tuple[LocalCertificate, ...], tmp_path: Path
) -> None:
    shutil.copy(files[1].tls.key, tmp_path / "key")
    wrong = files[0].tls.model_copy(update={"key": tmp_path / "key"})
    with pytest.raises(SetupError, match="TLS files of alice cannot be used"):
        connect(configs(files, [wrong] * 3)[0])


def run_as_threads(join: Callable[[Rank], None]) -> None:
    threads = [threading.Thread(target=join, args=(rank,)) for rank in RANKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_another_session_is_told() -> None:
    channels = memory_channels(timeout=5, names=NAMES)
    sessions = [b"today", b"yesterday", b"today"]
    outcomes: list = [None] * 3

    def join(rank: Rank) -> None:
        try:
            outcomes[rank] = agree(channels[rank], session=sessions[rank])
        except SetupError as error:
            outcomes[rank] = error

    run_as_threads(join)
    assert all(isinstance(outcome, SetupError) for outcome in outcomes)
    assert "bob is in another session" in str(outcomes[0])


def test_another_order_of_the_parties_is_told() -> None:
    """With another order they would work with other masks, and send to wrong ranks."""
    channels = memory_channels(timeout=5, names=NAMES)
    channels[2].names = ("bob", "alice", "carol")
    told: list[str] = []

    def join(rank: Rank) -> None:
        with pytest.raises(SetupError) as caught:
            agree(channels[rank], session=b"s")
        told.append(str(caught.value))

    run_as_threads(join)
    assert len(told) == 3
    assert all("in another order" in text for text in told)


def test_pairs_agree_and_the_third_does_not_know() -> None:
    channels = memory_channels(timeout=5, names=NAMES)
    masks: dict[tuple[Rank, str], bytes] = {}

    def join(rank: Rank) -> None:
        def draw(role: party.Role) -> party.Steps[None]:
            for name, shared in (("next", role.next), ("previous", role.previous)):
                masks[rank, name] = shared.draw("test", 4, Ring(64)).tobytes()
            yield party.Exchange()

        agree(channels[rank], session=b"s").run(draw, rotation=0)

    run_as_threads(join)
    for rank in RANKS:
        assert masks[rank, "next"] == masks[rank.next, "previous"]
    assert len(set(masks.values())) == 3


def test_runs_bind_all_masks_to_their_context() -> None:
    """One context, one set of masks; P2 has another context and shares nothing."""
    channels = memory_channels(timeout=5, names=NAMES)
    masks: dict[tuple[Rank, str, int], bytes] = {}

    def join(rank: Rank) -> None:
        session = agree(channels[rank], session=b"s")
        contexts = [b"plan", b"plan", b"other" if rank == Rank.P2 else b"plan"]
        for k, context in enumerate(contexts):
            run = session.for_run(context)
            pairs = run.masks_of_pairs()
            given = {
                "next": pairs[rank.next],
                "previous": pairs[rank.previous],
                "all": run.masks_of_all(),
            }
            for name, each in given.items():
                masks[rank, name, k] = each.draw("test", 4, Ring(64)).tobytes()

    run_as_threads(join)
    for rank in RANKS:
        for k in range(2):
            assert masks[rank, "next", k] == masks[rank.next, "previous", k]
            assert masks[rank, "all", k] == masks[Rank.P0, "all", k]
    assert masks[Rank.P0, "next", 2] == masks[Rank.P1, "previous", 2]
    assert masks[Rank.P0, "all", 2] == masks[Rank.P1, "all", 2]
    assert len(set(masks.values())) == 4 + 4 + (2 + 5)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    files = make_local_certificates(folder, NAMES)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(f.tls.key.stat().st_mode & 0o077 == 0 for f in files)
