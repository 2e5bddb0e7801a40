"""A trial authority: what it signs, and how its key is kept."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from ditto.errors import CertificateError, SetupError
from ditto.trust import (
    Credentials,
    Identity,
    Role,
    TrustedDomains,
    fingerprint,
    issue,
    load_credentials,
    make_authority,
)
from ditto.trust.authority import (
    Authority,
    read_authority,
    write_authority,
    write_issued,
)

PARTY = Identity("a.example", Role.PARTY, "0")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("a.example", 120, organisation="Hospital A")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def loaded(folder: Path, authority: Authority) -> Credentials:
    domains = TrustedDomains({authority.trust_domain: authority.certificate})
    return load_credentials(folder, domains)


def test_an_authority_is_kept_and_read(tmp_path: Path, authority: Authority) -> None:
    folder = tmp_path / "a"
    write_authority(folder, authority)
    assert mode(folder) == 0o700
    assert {mode(file) for file in folder.iterdir()} == {0o600}
    assert sorted(os.listdir(folder)) == ["ca.crt", "ca.key"]
    again = read_authority(folder)
    assert again.trust_domain == "a.example"
    assert again.certificate == authority.certificate
    assert again.key.private_numbers() == authority.key.private_numbers()
    assert "PRIVATE" not in repr(again)


def test_a_key_is_never_overwritten(tmp_path: Path, authority: Authority) -> None:
    write_authority(tmp_path / "a", authority)
    before = (tmp_path / "a" / "ca.key").read_bytes()
    with pytest.raises(SetupError, match="is not overwritten"):
        write_authority(tmp_path / "a", make_authority("a.example"))
    assert (tmp_path / "a" / "ca.key").read_bytes() == before
    write_issued(tmp_path / "p", issue(authority, PARTY))
    with pytest.raises(SetupError, match="is not overwritten"):
        write_issued(tmp_path / "p", issue(authority, PARTY))
    assert loaded(tmp_path / "p", authority).identity == PARTY


def test_a_renewed_certificate_keeps_its_key(
    tmp_path: Path, authority: Authority
) -> None:
    first = issue(authority, PARTY, days=2)
    write_issued(tmp_path / "p", first)
    before = loaded(tmp_path / "p", authority)
    key = (tmp_path / "p" / "tls.key").read_bytes()
    again = issue(authority, PARTY, days=20, key=first.key)
    write_issued(tmp_path / "p", again, renew=True)
    after = loaded(tmp_path / "p", authority)
    assert after.expires > before.expires
    assert (tmp_path / "p" / "tls.key").read_bytes() == key == after.key()
    assert sorted(os.listdir(tmp_path / "p")) == ["tls.crt", "tls.key"]


def test_a_folder_that_others_write_to_is_refused(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(SetupError, match="only you can write to"):
        write_authority(tmp_path / "open", authority)


def test_parties_serve_and_others_do_not(authority: Authority) -> None:
    party = issue(authority, PARTY, ["p0.a.example", "10.1.2.3", "::1"]).certificate
    names = party.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "0.party.a.example",
        "p0.a.example",
    ]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
        "10.1.2.3",
        "::1",
    ]
    with pytest.raises(SetupError, match="only a party is called"):
        issue(authority, Identity("a.example", Role.CLIENT, "c"), ["c.a.example"])


@pytest.mark.parametrize(
    ("hosts", "days", "reason"),
    [
        (["a b"], 1, "neither a DNS name nor"),
        (["https://a.example"], 1, "neither a DNS name nor"),
        (["a.example:7000"], 1, "neither a DNS name nor"),
        (["x.example"] * 65, 1, "At most 64 hosts"),
        ([], 0, "lasts 1 to 3650 days"),
        ([], 4000, "lasts 1 to 3650 days"),
        ([], 121, "would outlive its authority"),
    ],
)
def test_what_cannot_be_issued(
    authority: Authority, hosts: list[str], days: int, reason: str
) -> None:
    with pytest.raises(SetupError, match=reason):
        issue(authority, PARTY, hosts, days)


def test_openssl_agrees(tmp_path: Path, authority: Authority) -> None:
    write_authority(tmp_path / "a", authority)
    write_issued(tmp_path / "p", issue(authority, PARTY, ["localhost"]))
    for purpose in ("sslclient", "sslserver"):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose]
        command += ["-CAfile", str(tmp_path / "a" / "ca.crt")]
        command += [str(tmp_path / "p" / "tls.crt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    command = ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in"]
    command += [str(tmp_path / "a" / "ca.crt")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hexadecimal = said.strip().partition("=")[2].replace(":", "").lower()
    assert hexadecimal == fingerprint(authority.certificate)


def test_credentials_are_checked_where_they_are_used(
    tmp_path: Path, authority: Authority
) -> None:
    folder = tmp_path / "p"
    write_issued(folder, issue(authority, PARTY))
    key = folder / "tls.key"
    content = key.read_bytes()
    credentials = loaded(folder, authority)
    assert credentials.key() == content
    assert content.decode().splitlines()[1] not in repr(credentials)
    key.chmod(0o644)
    with pytest.raises(SetupError, match="chmod 600"):
        loaded(folder, authority)
    key.chmod(0o600)
    key.write_bytes(issue(authority, PARTY).key_pem())
    with pytest.raises(SetupError, match="is not the key of"):
        loaded(folder, authority)
    key.write_bytes(b"hello")
    with pytest.raises(SetupError, match="is not a key"):
        loaded(folder, authority)
    with pytest.raises(CertificateError, match="was not signed by the authority"):
        loaded(folder, make_authority("a.example"))
    with pytest.raises(SetupError, match="cannot be read"):
        loaded(tmp_path / "none", authority)
