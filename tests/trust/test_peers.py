"""Whom a certificate proves: its domain's own authority, and no other, may say so."""

import datetime
import random
import warnings
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from ditto.errors import CertificateError, SetupError
from ditto.trust import (
    Authority,
    Cause,
    Identity,
    Role,
    TrustedDomains,
    Usage,
    issue,
    make_authority,
    read_certificate,
)
from ditto.trust.authority import sign_for
from tests.fuzzing import inputs

from .certificates import DAY, NOW, certificate_with, uri

A0 = Identity("a.example", Role.PARTY, "0")
B1 = Identity("b.example", Role.PARTY, "1")


@pytest.fixture(scope="module")
def a() -> Authority:
    return make_authority("a.example", 120)


@pytest.fixture(scope="module")
def b() -> Authority:
    return make_authority("b.example", 120)


@pytest.fixture(scope="module")
def domains(a: Authority, b: Authority) -> TrustedDomains:
    return TrustedDomains({"a.example": a.certificate, "b.example": b.certificate})


def cause_of(domains: TrustedDomains, certificate: Any, **options: Any) -> str:
    with pytest.raises(CertificateError) as caught:
        domains.verify(certificate, **options)
    public = caught.value.public_message()
    assert len(public) < 400
    assert "-----" not in public
    return caught.value.cause


def test_members_prove_who_they_are(
    a: Authority, b: Authority, domains: TrustedDomains
) -> None:
    party = issue(b, B1, ["party.b.example", "10.0.0.2"], 7)
    for usage in Usage:
        for form in (party.certificate_pem(), party.certificate):
            assert domains.verify(form, usage=usage, expected=B1) == B1
    der = party.certificate.public_bytes(Encoding.DER)
    assert domains.verify(der) == B1
    client = Identity("a.example", Role.CLIENT, "alice")
    assert domains.verify(issue(a, client).certificate_pem()) == client


def test_an_authority_cannot_speak_for_another(
    a: Authority, domains: TrustedDomains
) -> None:
    forged = sign_for(a, B1)
    assert cause_of(domains, forged.certificate) == Cause.OTHER_AUTHORITY
    with pytest.raises(SetupError, match=r"cannot vouch for spiffe://b\.example"):
        issue(a, B1)


def test_an_authority_that_took_anothers_name_is_refused(
    b: Authority, domains: TrustedDomains
) -> None:
    """The names in a certificate prove nothing; the signature does."""
    twin = make_authority("b.example", 120)
    assert cause_of(domains, issue(twin, B1).certificate) == Cause.OTHER_AUTHORITY
    named = certificate_with(
        Authority(b.certificate, twin.key, "b.example"), [uri(str(B1))]
    )
    assert named.issuer == b.certificate.subject
    assert cause_of(domains, named) == Cause.OTHER_AUTHORITY


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"names": [uri("spiffe://c.example/party/2")]}, Cause.UNKNOWN_DOMAIN),
        ({"names": [uri("spiffe://a.example/x")]}, Cause.NO_IDENTITY),
        ({"valid": (NOW - 2 * DAY, NOW - DAY)}, Cause.EXPIRED),
        ({"valid": (NOW + DAY, NOW + 2 * DAY)}, Cause.NOT_YET_VALID),
        ({"is_authority": True}, Cause.WRONG_USE),
        ({"uses": []}, Cause.WRONG_USE),
        ({"uses": [ExtendedKeyUsageOID.SERVER_AUTH]}, Cause.WRONG_USE),
        ({"uses": [ExtendedKeyUsageOID.CODE_SIGNING]}, Cause.WRONG_USE),
        ({"strange": True}, Cause.WRONG_USE),
    ],
)
def test_the_cause_is_named(
    a: Authority, domains: TrustedDomains, changes: dict[str, Any], cause: Cause
) -> None:
    assert domains.verify(certificate_with(a)) == A0  # nothing else is wrong with it
    assert cause_of(domains, certificate_with(a, **changes)) == cause


def test_time_is_that_of_the_caller(a: Authority, domains: TrustedDomains) -> None:
    certificate = issue(a, A0, days=7).certificate
    later, earlier = NOW + 8 * DAY, NOW - DAY
    assert cause_of(domains, certificate, now=later) == Cause.EXPIRED
    assert cause_of(domains, certificate, now=earlier) == Cause.NOT_YET_VALID


def test_an_authority_ends_too() -> None:
    old = make_authority("a.example", 1)
    certificate = certificate_with(old, valid=(NOW - DAY, NOW + 9 * DAY))
    domains = TrustedDomains({"a.example": old.certificate})
    assert domains.verify(certificate) == A0
    assert cause_of(domains, certificate, now=NOW + 2 * DAY) == Cause.EXPIRED


def test_another_identity_than_expected(a: Authority, domains: TrustedDomains) -> None:
    certificate = issue(a, A0).certificate
    assert cause_of(domains, certificate, expected=B1) == Cause.OTHER_IDENTITY


def test_a_client_cannot_act_as_a_server(a: Authority, domains: TrustedDomains) -> None:
    client = issue(a, Identity("a.example", Role.CLIENT, "alice"))
    cause = cause_of(domains, client.certificate, usage=Usage.SERVER)
    assert cause == Cause.WRONG_USE


def test_what_is_signed_below_the_authority_is_refused(
    a: Authority, domains: TrustedDomains
) -> None:
    """No chains: a member that got hold of a signing bit vouches for nobody."""
    member = issue(a, A0)
    below = sign_for(member, Identity("a.example", Role.PARTY, "2"), days=1)
    assert cause_of(domains, below.certificate) == Cause.OTHER_AUTHORITY


def test_a_member_is_no_authority(a: Authority) -> None:
    with pytest.raises(SetupError, match="may not sign others"):
        TrustedDomains({"a.example": issue(a, A0).certificate})


def test_damaged_certificates(a: Authority, domains: TrustedDomains) -> None:
    """Each is refused by our error; none is believed, for none is signed."""
    issued = issue(a, A0)
    forms = issued.certificate.public_bytes(Encoding.DER), issued.certificate_pem()
    seed = random.randrange(1 << 32)
    draw, believed = random.Random(seed), 0
    count = inputs(10_000)
    for k in range(count):
        content = bytearray(forms[k % 2])
        for _ in range(draw.choice((1, 1, 2, 8))):
            place = draw.randrange(len(content))
            match draw.randrange(3):
                case 0:
                    content[place] = draw.randrange(256)
                case 1:
                    del content[place : place + draw.randrange(1, 40)]
                case _:
                    content[place:place] = draw.randbytes(draw.randrange(1, 20))
            if not content:
                break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of certificates that bend the standard
            try:
                domains.verify(bytes(content))
            except CertificateError:
                continue
        # white space in the PEM, or how the signature is written: none of it is signed
        kept = read_certificate(bytes(content)).tbs_certificate_bytes
        assert kept == issued.certificate.tbs_certificate_bytes, f"seed {seed}"
        believed += 1
    assert believed < count / 2


def test_large_certificates_are_not_read(domains: TrustedDomains) -> None:
    assert cause_of(domains, b"-----BEGIN CERTIFICATE-----" * 1000) == Cause.UNREADABLE
    two = make_authority("c.example").certificate_pem() * 2
    assert cause_of(domains, two) == Cause.UNREADABLE


def test_dates_are_in_utc(a: Authority) -> None:
    assert a.certificate.not_valid_before_utc.tzinfo is datetime.UTC
