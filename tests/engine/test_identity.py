"""Who may speak for a party: certificates, and the proof made with them."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ditto.engine.certificates import CertificateProver, make_local_certificates
from ditto.errors import PeerIdentityError, SetupError
from ditto.protocols import agree, memory_channels
from ditto.sharing import RANKS, Rank

NAMES = ("alice", "bob", "carol")
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def provers(tmp_path_factory: pytest.TempPathFactory) -> list[CertificateProver]:
    folder = tmp_path_factory.mktemp("certificates")
    return [CertificateProver(f, NAMES) for f in make_local_certificates(folder, NAMES)]


def test_a_proof_is_accepted_from_its_maker_only(
    provers: list[CertificateProver],
) -> None:
    proof = provers[1].prove(b"statement")
    assert len(proof) == provers[1].proof_size
    provers[0].check(Rank.P1, b"statement", proof)
    with pytest.raises(PeerIdentityError, match="another name") as caught:
        provers[0].check(Rank.P2, b"statement", proof)
    assert caught.value.peer == "carol"
    with pytest.raises(PeerIdentityError, match="signature is wrong"):
        provers[0].check(Rank.P1, b"another statement", proof)


def test_another_authority_is_refused(
    provers: list[CertificateProver], tmp_path: Path
) -> None:
    stranger = CertificateProver(make_local_certificates(tmp_path, NAMES)[1], NAMES)
    with pytest.raises(PeerIdentityError) as caught:
        provers[0].check(Rank.P1, b"statement", stranger.prove(b"statement"))
    assert caught.value.peer == "bob"


@SETTINGS
@given(st.binary(max_size=5000))
def test_bytes_that_are_no_proof_are_refused(
    provers: list[CertificateProver], proof: bytes
) -> None:
    with pytest.raises(PeerIdentityError):
        provers[0].check(Rank.P1, b"statement", proof)


@SETTINGS
@given(place=st.integers(0, CertificateProver.proof_size - 1), flip=st.integers(1, 255))
def test_a_flipped_byte_is_refused(
    provers: list[CertificateProver], place: int, flip: int
) -> None:
    proof = bytearray(provers[1].prove(b"statement"))
    length = int.from_bytes(proof[:2], "big")
    padding = range(2 + length, 2 + 4096)
    proof[place] ^= flip
    if place in padding:
        provers[0].check(Rank.P1, b"statement", bytes(proof))
    else:
        with pytest.raises(PeerIdentityError):
            provers[0].check(Rank.P1, b"statement", bytes(proof))


def run_as_threads(join: Callable[[Rank], None]) -> None:
    threads = [threading.Thread(target=join, args=(rank,)) for rank in RANKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_session_refuses_a_party_with_anothers_certificate(
    provers: list[CertificateProver],
) -> None:
    channels = memory_channels(timeout=5, names=NAMES)
    impostors = [provers[0], provers[2], provers[2]]  # carol plays bob as well
    outcomes: list = [None] * 3

    def join(rank: Rank) -> None:
        try:
            outcomes[rank] = agree(channels[rank], session=b"s", prover=impostors[rank])
        except PeerIdentityError as error:
            outcomes[rank] = error

    run_as_threads(join)
    for rank in (0, 2):
        assert isinstance(outcomes[rank], PeerIdentityError)
        assert outcomes[rank].peer == "bob"


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


def test_pairs_agree_and_the_third_does_not_know() -> None:
    channels = memory_channels(timeout=5, names=NAMES)
    agreed: list = [None] * 3

    def join(rank: Rank) -> None:
        agreed[rank] = agree(channels[rank], session=b"s")

    run_as_threads(join)
    keys = [agreement.link_keys() for agreement in agreed]
    for a in RANKS:
        for b in RANKS:
            if a != b:
                assert keys[a][b][0] == keys[b][a][1]
    directions = {key for mine in keys for pair in mine.values() for key in pair}
    assert len(directions) == 6


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    files = make_local_certificates(tmp_path, NAMES)[0]
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files.key.write_bytes(pem)
    with pytest.raises(SetupError, match="EC P-256"):
        CertificateProver(files, NAMES)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    files = make_local_certificates(folder, NAMES)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(f.key.stat().st_mode & 0o077 == 0 for f in files)
