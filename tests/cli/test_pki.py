"""``ditto pki`` as three organisations use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ditto import __version__
from ditto.cli import app
from ditto.cli.exit_codes import exit_code_of
from ditto.errors import DittoError
from ditto.trust import load_credentials
from ditto.wire.agreement import read_agreement
from tests.documents import check_document

LETTERS = "abc"


def ditto(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    got = done.exit_code
    if isinstance(done.exception, DittoError):
        got = exit_code_of(done.exception)
    assert got == code, (done.output, done.exception)
    return done


def refused(*arguments: object) -> str:
    """What is said by a command that ends with code 4."""
    return str(ditto(*arguments, code=4).exception)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three organisations with a party each, an owner, and their agreement."""
    made = tmp_path_factory.mktemp("pki")
    for rank, letter in enumerate(LETTERS):
        domain = f"org-{letter}.example"
        done = ditto(
            "pki", "init", f"Org {letter}", "--domain", domain, "--out", made / letter,
            "--json", "-",
        )  # fmt: skip
        check_document("pki init", json.loads(done.output))
        party = made / letter, f"party/{rank}"
        done = ditto("pki", "issue", *party, "--host", "localhost", "--json", "-")
        check_document("pki issue", json.loads(done.output))
    ditto("pki", "init", "Acme", "--domain", "acme.example", "--out", made / "acme")
    ditto("pki", "issue", made / "acme", "owner/acme", "--days", 7)
    agreed = agree(made, made / "deployment.toml", "--json", "-")
    check_document("pki agree", json.loads(agreed.output))
    return made


def agree(folder: Path, out: Path, *more: str) -> Result:
    addresses: list[object] = []
    for rank in range(3):
        addresses += ["--grpc", f"localhost:71{{trio}}{rank}"]
        addresses += ["--link", f"localhost:72{{trio}}{rank}"]
    return ditto(
        "pki", "agree", folder / "a", folder / "b" / "ca.crt",
        f"org-c.example={folder / 'c' / 'ca.crt'}", *addresses, "--trios", 2,
        "--owner", "spiffe://acme.example/owner/acme", "--client", "acme.example",
        "--member-ca", folder / "acme", "--out", out, *more,
    )  # fmt: skip


def test_three_organisations_agree(folder: Path) -> None:
    agreement = read_agreement(folder / "deployment.toml")
    assert [party.organisation for party in agreement.parties] == [
        "Org a",
        "Org b",
        "Org c",
    ]
    assert agreement.parties[2].link_address(1) == "localhost:7212"
    assert agreement.versions.admit(__version__)
    for rank, letter in enumerate(LETTERS):
        credentials = load_credentials(
            folder / letter / f"party-{rank}", agreement.trusted_domains
        )
        assert agreement.rank_of(credentials.identity) == rank
    owner = load_credentials(
        folder / "acme" / "owner-acme", agreement.trusted_domains
    ).identity
    assert agreement.admits(owner)


def test_what_is_shown_is_what_is_there(folder: Path) -> None:
    agreement = read_agreement(folder / "deployment.toml")
    shown = ditto("pki", "show", folder / "deployment.toml").output
    assert agreement.digest in shown
    assert all(party.ca_sha256 in shown for party in agreement.parties)
    shown = ditto("pki", "show", folder / "deployment.toml", "--json", "-").output
    check_document("pki show deployment.toml", json.loads(shown))
    assert json.loads(shown)["digest"] == agreement.digest
    shown = ditto("pki", "show", folder / "b" / "party-1").output
    assert "spiffe://org-b.example/party/1" in shown
    assert "localhost" in shown
    shown = ditto("pki", "show", folder / "b", "--json", "-").output
    certificate = json.loads(shown)
    check_document("pki show", certificate)
    assert certificate["sha256"] == agreement.parties[1].ca_sha256
    assert certificate["is_authority"]


def test_a_certificate_that_ends_soon_is_told_to_scripts(folder: Path) -> None:
    path = folder / "acme" / "owner-acme"
    ditto("pki", "show", path, "--expires-within", 6)
    ditto("pki", "show", path, "--expires-within", 8, code=4)


def test_a_certificate_is_renewed(folder: Path) -> None:
    path = folder / "a" / "client-carl"
    ditto("pki", "issue", folder / "a", "client/carl", "--days", 3)
    key = (path / "tls.key").read_bytes()
    said = refused("pki", "issue", folder / "a", "client/carl", "--days", 30)
    assert "is not overwritten" in said
    ditto("pki", "issue", folder / "a", "client/carl", "--days", 30, "--renew")
    assert (path / "tls.key").read_bytes() == key
    ditto("pki", "show", path, "--expires-within", 29)
    party = folder / "a" / "party-0"
    ditto("pki", "issue", folder / "a", "party/0", "--renew")
    shown = json.loads(ditto("pki", "show", party, "--json", "-").output)
    assert shown["hosts"] == ["0.party.org-a.example", "localhost"]


def test_nothing_is_overwritten(folder: Path) -> None:
    a = "pki", "init", "A", "--domain", "org-a.example", "--out", folder / "a"
    assert "is not overwritten" in refused(*a)
    with pytest.raises(AssertionError, match="is not overwritten"):
        agree(folder, folder / "deployment.toml")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["init", "A", "--domain", "Org A"], "cannot be a trust domain"),
        (["init", "A", "--domain", "x.example", "--days", 9999], "1 to 3650 days"),
        (["issue", "none", "party/0"], "cannot be read"),
        (["issue", "a", "boss/0"], "is not an identity"),
        (["issue", "a", "party"], "is not an identity"),
        (["issue", "a", "client/x", "--host", "x"], "only a party is called"),
        (["issue", "a", "client/none", "--renew"], "cannot be read"),
        (["show", "none.toml"], "cannot be read"),
        (["show", "."], "neither tls.crt nor ca.crt"),
        (["agree", "a", "b", "--grpc", "x:1", "--link", "x:2"], "CA is given 2 times"),
    ],
)
def test_what_is_wrong_is_said(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[object],
    reason: str,
) -> None:
    monkeypatch.chdir(folder)
    assert reason in refused("pki", *arguments)


def test_help_names_the_way() -> None:
    said = " ".join(ditto("pki", "--help").output.split())
    assert "no key ever leaves" in said
    for command in ("init", "issue", "agree", "show"):
        assert command in said
        assert "Usage" in ditto("pki", command, "--help").output
