"""The agreement: what is one, what is not, and that its digest covers all of it."""

import random
import time
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ditto.errors import AgreementError
from ditto.sharing import Rank
from ditto.trust import (
    Authority,
    Identity,
    Role,
    fingerprint,
    issue,
    make_authority,
)
from ditto.wire.agreement import (
    MAX_BYTES,
    Agreement,
    parse_agreement,
    read_agreement,
)
from ditto.wire.agreement_toml import to_toml
from ditto.wire.versions import in_range, version_key
from tests.fuzzing import inputs

DOMAINS = ("org-a.example", "org-b.example", "org-c.example")
ACME = "spiffe://acme.example/owner/acme"
ALICE = "spiffe://org-a.example/client/alice"


@pytest.fixture(scope="module")
def authorities() -> dict[str, Authority]:
    return {name: make_authority(name, 30) for name in (*DOMAINS, "acme.example")}


def vouched(authority: Authority) -> dict[str, Any]:
    return {
        "trust_domain": authority.trust_domain,
        "ca_sha256": fingerprint(authority.certificate),
        "ca": authority.certificate_pem().decode(),
    }


@pytest.fixture
def document(authorities: dict[str, Authority]) -> dict[str, Any]:
    return {
        "format": 1,
        "name": "demo",
        "trios": 2,
        "drain_seconds": 30,
        "owners": [ACME],
        "clients": ["acme.example", ALICE],
        "versions": {"min": "0.1.0.dev0", "max": "0.2.0"},
        "limits": {"queue_length": 8},
        "parties": [
            {
                "organisation": f'Org "{letter}"',
                "grpc": f"p{{trio}}.org-{letter}.example:7100",
                "link": f"p{{trio}}.org-{letter}.example:7200",
                **vouched(authorities[domain]),
            }
            for letter, domain in zip("abc", DOMAINS, strict=True)
        ],
        "domains": [vouched(authorities["acme.example"])],
    }


def toml_of(document: dict[str, Any]) -> str:
    return to_toml(Agreement.model_validate(document))


def test_an_agreement_is_written_and_read(document: dict[str, Any]) -> None:
    text = toml_of(document)
    agreement = parse_agreement(text.encode())
    assert agreement == Agreement.model_validate(document)
    assert to_toml(agreement) == text
    assert agreement.limits.queue_length == 8
    assert agreement.limits.models == 64
    assert agreement.parties[1].grpc_address(1) == "p1.org-b.example:7100"
    assert agreement.parties[2].link_address(0) == "p0.org-c.example:7200"
    identity = agreement.party_identity(Rank.P1)
    assert str(identity) == "spiffe://org-b.example/party/1"
    assert agreement.rank_of(identity) is Rank.P1


def test_a_certificate_may_stand_beside(
    document: dict[str, Any], authorities: dict[str, Authority], tmp_path: Path
) -> None:
    text = toml_of(document)
    pem = authorities["org-b.example"].certificate_pem().decode().strip()
    moved = text.replace(f'ca = """\n{pem}\n"""', 'ca_file = "b.crt"')
    assert moved != text
    (tmp_path / "b.crt").write_text(pem.replace("\n", "\r\n") + "\r\n")
    (tmp_path / "deployment.toml").write_text(f"# moved\n{moved}")
    agreement = read_agreement(tmp_path / "deployment.toml")
    assert agreement.digest == parse_agreement(text.encode()).digest
    for path in ("../b.crt", "/etc/passwd", "x/b.crt", "..", ""):
        wrong = moved.replace("b.crt", path).encode()
        with pytest.raises(AgreementError, match="without a path"):
            parse_agreement(wrong, beside=tmp_path)
    with pytest.raises(AgreementError, match="cannot be read"):
        parse_agreement(moved.replace("b.crt", "c.crt").encode(), beside=tmp_path)


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set what is at a path of a document to the last of the arguments."""

    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


CHANGES = [
    put("name", "other"),
    put("trios", 3),
    put("drain_seconds", 31),
    put("audit", "products"),
    put("audit_chance", 0.5),
    put("owners", []),
    put("clients", ["acme.example"]),
    put("versions", "max", "0.2.1"),
    put("versions", "min", "0.1.0"),
    put("limits", "queue_length", 9),
    put("limits", "models", 65),
    put("parties", 0, "organisation", "Org d"),
    put("parties", 1, "grpc", "q{trio}.org-b.example:7100"),
    put("parties", 2, "link", "p{trio}.org-c.example:7201"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_covers_everything(
    document: dict[str, Any], change: Callable[[dict[str, Any]], None]
) -> None:
    before = Agreement.model_validate(document).digest
    assert Agreement.model_validate(document).digest == before
    change(document)
    assert Agreement.model_validate(document).digest != before


def test_the_digest_covers_authorities_and_ranks(document: dict[str, Any]) -> None:
    before = Agreement.model_validate(document).digest
    again = make_authority("acme.example", 30)
    assert (
        Agreement.model_validate({**document, "domains": [vouched(again)]}).digest
        != before
    )
    document["parties"].reverse()
    assert Agreement.model_validate(document).digest != before


def test_the_digest_is_the_same_on_every_machine() -> None:
    """Three organisations with other releases of Python compare it."""
    folder = Path(__file__).parent / "agreement"
    agreement = read_agreement(folder / "deployment.toml")
    assert agreement.digest == (folder / "digest").read_text().strip()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("format", 2), "format: Input should be 1"),
        (put("name", "No name"), "name: "),
        (put("surprise", 1), "surprise: Extra inputs"),
        (put("trios", 0), "trios: .*greater than or equal to 1, got 0"),
        (put("trios", 257), "less than or equal to 256"),
        (put("trios", "2"), "valid integer, got '2'"),
        (put("trios", True), "valid integer"),
        (put("drain_seconds", 10**30), "drain_seconds"),
        (put("limits", "queue_length", 0), "limits.queue_length"),
        (put("limits", "none", 0), "limits.none"),
        (put("versions", "max", "0.0.1"), "is later than max"),
        (put("versions", "max", "new"), "is not a version"),
        (put("versions", {}), "versions.min: Field required"),
        (put("parties", []), "parties: .*at least 3"),
        (put("parties", 0, "trust_domain", "ORG"), "cannot be a trust domain"),
        (put("parties", 0, "trust_domain", DOMAINS[1]), "trust domains must all"),
        (put("parties", 0, "ca_sha256", "0" * 64), "Ask that organisation which"),
        (put("parties", 0, "ca", "hello"), "not one X.509 certificate"),
        (put("parties", 0, "ca", "x" * 20000), "parties.0.ca"),
        (put("parties", 0, "grpc", "p.org-a.example:7100"), "needs {trio} once"),
        (put("parties", 0, "grpc", "p{trio}:99999"), "is not an address"),
        (put("parties", 0, "grpc", "p{trio}"), "is not an address"),
        (put("parties", 0, "grpc", "p {trio}:1"), "is not an address"),
        (put("parties", 0, "grpc", "http://p{trio}:1"), "is not an address"),
        (put("parties", 0, "link", "p{trio}.org-b.example:7200"), "must differ"),
        (put("owners", [ALICE]), "listed as owner, but it is a client"),
        (put("owners", ["acme.example"]), "is not an identity"),
        (put("owners", [ACME] * 257), "owners: .*at most 256"),
        (put("owners", [ACME.replace("acme", "x")]), "no authority is given for x"),
        (put("clients", [ACME]), "listed as client, but it is a owner"),
        (put("clients", ["x.example"]), "no authority is given for x.example"),
        (put("domains", []), "no authority is given for acme.example"),
    ],
)
def test_what_is_wrong_is_said(
    document: dict[str, Any],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None],
    reason: str,
) -> None:
    change(document)
    with pytest.raises(AgreementError, match=reason) as caught:
        parse_agreement(_unchecked_toml(document).encode())
    assert len(str(caught.value)) < 900
    assert caught.value.public_message().startswith("agreement: ")


def _unchecked_toml(document: dict[str, Any]) -> str:
    def value(of: Any) -> str:
        match of:
            case dict():
                return "{" + ", ".join(f"{k} = {value(v)}" for k, v in of.items()) + "}"
            case list():
                return "[\n" + "".join(f"{value(each)},\n" for each in of) + "]"
            case bool():
                return str(of).lower()
            case str():
                return '"' + repr(of)[1:-1].replace('"', '\\"') + '"'
        return str(of)

    return "\n".join(f"{key} = {value(of)}" for key, of in document.items())


def test_one_authority_for_two_organisations_is_refused(
    document: dict[str, Any],
) -> None:
    same = {key: document["parties"][0][key] for key in ("ca", "ca_sha256")}
    document["parties"][1].update(same)
    with pytest.raises(AgreementError, match="authorities must all differ"):
        parse_agreement(_unchecked_toml(document).encode())


def test_a_member_given_as_authority_is_refused(
    document: dict[str, Any], authorities: dict[str, Authority]
) -> None:
    member = issue(
        authorities["org-a.example"], Identity("org-a.example", Role.PARTY, "0"), days=1
    )
    document["parties"][0]["ca"] = member.certificate_pem().decode()
    document["parties"][0]["ca_sha256"] = fingerprint(member.certificate)
    with pytest.raises(AgreementError, match="may not sign others"):
        parse_agreement(_unchecked_toml(document).encode())


@pytest.mark.parametrize(
    ("identity", "admitted"),
    [
        ("spiffe://org-a.example/party/0", True),
        ("spiffe://org-c.example/party/2", True),
        ("spiffe://org-a.example/party/1", False),
        ("spiffe://acme.example/party/0", False),
        (ACME, True),
        ("spiffe://acme.example/owner/other", False),
        ("spiffe://org-a.example/owner/acme", False),
        (ALICE, True),
        ("spiffe://org-a.example/client/bob", False),
        ("spiffe://acme.example/client/anybody", True),
        ("spiffe://org-b.example/operator/eve", True),
        ("spiffe://acme.example/operator/eve", False),
    ],
)
def test_who_may_take_part(
    document: dict[str, Any], identity: str, admitted: bool
) -> None:
    agreement = Agreement.model_validate(document)
    assert agreement.admits(Identity.parse(identity)) is admitted


def test_the_domains_are_those_of_all(
    document: dict[str, Any], authorities: dict[str, Authority]
) -> None:
    domains = Agreement.model_validate(document).trusted_domains
    assert {*domains.authorities} == {*authorities}
    owner = issue(authorities["acme.example"], Identity.parse(ACME), days=1)
    assert str(domains.verify(owner.certificate)) == ACME


HOSTILE = {
    "a key of many parts": ".".join("a" * 60_000) + " = 1",
    "the same in a table": "x = {" + "a." * 60_000 + "b = 1}",
    "many headers": "\n".join(f"[a{'.a' * 60}.b{i}]" for i in range(900)),
    "depth": "a = " + "[" * 60_000,
    "tables in tables": "a = " + "{a = " * 20_000,
    "a long number": "a = " + "9" * 120_000,
    "many parties": "[[parties]]\n" * 10_000,
    "not UTF-8": "name = '\udcff'",
    "nothing": "",
    "too long": "#" * (MAX_BYTES + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_in_time(name: str) -> None:
    content = HOSTILE[name].encode(errors="surrogateescape")
    started = time.process_time()
    with pytest.raises(AgreementError) as caught:
        parse_agreement(content)
    assert time.process_time() - started < 3
    assert len(str(caught.value)) < 900


def test_damaged_documents(document: dict[str, Any]) -> None:
    """Each is an agreement or is refused by the one error; none takes long."""
    text = toml_of(document).encode()
    pieces = [
        b"[",
        b"]",
        b'"',
        b"=",
        b"\n",
        b"{",
        b".",
        b"[[parties]]\n",
        b"1e9",
        b"\\",
    ]
    seed = random.randrange(1 << 32)
    draw, slowest, longest, read = random.Random(seed), 0.0, 0, 0
    count = inputs(2000)
    for _ in range(count):
        content = bytearray(text)
        for _ in range(draw.choice((1, 1, 1, 4))):
            place = draw.randrange(len(content))
            match draw.randrange(4):
                case 0:
                    content[place] = draw.randrange(256)
                case 1:
                    del content[place : place + draw.randrange(1, 200)]
                case 2:
                    content[place:place] = draw.choice(pieces)
                case _:
                    other = draw.randrange(len(content))
                    content[place:place] = content[other : other + 200]
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of certificates that bend the standard
            try:
                parse_agreement(bytes(content))
                read += 1
            except AgreementError as error:
                longest = max(longest, len(str(error)))
        slowest = max(slowest, time.process_time() - started)
    assert slowest < 2, f"seed {seed}"
    assert longest < 1200, f"seed {seed}"
    assert 0 < read < count


def test_releases_are_in_order() -> None:
    releases = ["0.1.dev0", "0.1.0.dev3", "0.1a1.dev1", "0.1a1", "0.1b1", "0.1rc1"]
    releases += ["0.1rc2", "0.1.0", "0.1.1.dev0", "0.1.1", "0.10", "1"]
    keys = [version_key(release) for release in releases]
    assert keys == sorted(keys)
    assert version_key("0.1") == version_key("0.1.0")
    assert in_range("0.1.0", "0.1.0", "0.1.0")
    assert not in_range("0.2.0.dev1", "0.2.0", "0.3.0")
    for text in ("", "1.", "v1", "1.0+x", "1" * 40, "1.2.3.4.5", "1.0-1", "\uff11"):
        with pytest.raises(ValueError, match="is not a version"):
            version_key(text)


def test_what_is_written_is_plain_toml(document: dict[str, Any]) -> None:
    table = tomllib.loads(toml_of(document))
    assert table["parties"][0]["organisation"] == 'Org "a"'
    assert all(line.count(".") <= 64 for line in toml_of(document).splitlines())
