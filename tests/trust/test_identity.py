"""Names of who takes part: what is one, and what is not."""

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from ditto.errors import CertificateError, SetupError
from ditto.trust import Cause, Identity, Role, identity_of, make_authority

from .certificates import certificate_with


def test_an_identity_is_written_and_read() -> None:
    identity = Identity("org-b.example", Role.PARTY, "1")
    assert str(identity) == "spiffe://org-b.example/party/1"
    assert Identity.parse(str(identity)) == identity
    assert identity.server_name == "1.party.org-b.example"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "org-b.example/party/1",
        "SPIFFE://org-b.example/party/1",
        "https://org-b.example/party/1",
        "spiffe://org-b.example/party",
        "spiffe://org-b.example/party/",
        "spiffe://org-b.example/party/1/",
        "spiffe://org-b.example/party/1/2",
        "spiffe://org-b.example//1",
        "spiffe://org-b.example/boss/1",
        "spiffe://org-b.example/Party/1",
        "spiffe://org-b.example:443/party/1",
        "spiffe://user@org-b.example/party/1",
        "spiffe://ORG-B.example/party/1",
        "spiffe://org_b.example/party/1",
        "spiffe://-b.example/party/1",
        "spiffe://b..example/party/1",
        "spiffe://b.example./party/1",
        "spiffe://b.example/party/..",
        "spiffe://b.example/party/1?x=1",
        "spiffe://b.example/party/1#x",
        "spiffe://b.example/party/%31",
        "spiffe://b.example/party/1\n",
        "spiffe://b.example/party/\u0661",
        f"spiffe://{'b' * 129}.example/party/1",
        f"spiffe://b.example/party/{'1' * 64}",
        f"spiffe://{'b.' * 400}example/party/1",
    ],
)
def test_what_is_no_identity(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        Identity.parse(text)
    assert len(str(caught.value)) < 500


@given(st.text(max_size=300))
def test_any_text_is_an_identity_or_refused(text: str) -> None:
    try:
        identity = Identity.parse(f"spiffe://{text}")
    except SetupError:
        return
    assert str(identity) == f"spiffe://{text}"


@pytest.mark.parametrize(
    "names",
    [
        [],
        [x509.DNSName("spiffe.example")],
        [x509.UniformResourceIdentifier("spiffe://a.example/boss/1")],
        [
            x509.UniformResourceIdentifier("spiffe://a.example/party/0"),
            x509.UniformResourceIdentifier("spiffe://b.example/party/1"),
        ],
    ],
)
def test_a_certificate_has_one_identity(names: list[x509.GeneralName]) -> None:
    certificate = certificate_with(make_authority("a.example"), names)
    with pytest.raises(CertificateError) as caught:
        identity_of(certificate)
    assert caught.value.cause == Cause.NO_IDENTITY
    assert caught.value.peer == "unknown"
