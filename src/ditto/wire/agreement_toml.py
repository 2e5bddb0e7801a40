"""An agreement as the text of a ``deployment.toml``, for people to read and compare."""

import json

from ditto.files import JsonValue
from ditto.wire.agreement import Agreement

_HEAD = """\
# What three organisations have agreed on. Everybody uses the same file. Keep it in a
# repository whose main branch needs an approval of each organisation. All parties must
# have the same content: `ditto pki show` prints its digest.
"""


def to_toml(agreement: Agreement) -> str:
    """A document that reads as this agreement."""
    parts = [_HEAD]
    parts += [f"{key} = {_value(getattr(agreement, key))}" for key in _SIMPLE]
    for section, table in (
        ("versions", agreement.versions),
        ("limits", agreement.limits),
    ):
        keys = type(table).model_fields
        parts += ["", f"[{section}]"]
        parts += [f"{key} = {_value(getattr(table, key))}" for key in keys]
    for rank, party in enumerate(agreement.parties):
        parts += ["", "[[parties]]", f"# rank {rank}"]
        parts += [f"{key} = {_value(getattr(party, key))}" for key in _PARTY]
        parts += [_certificate(party.ca)]
    for domain in agreement.domains:
        parts += ["", "[[domains]]"]
        parts += [f"{key} = {_value(getattr(domain, key))}" for key in _VOUCHED]
        parts += [_certificate(domain.ca)]
    return "\n".join(parts) + "\n"


_SIMPLE = (
    "format", "name", "trios", "drain_seconds", "audit", "audit_chance", "owners",
    "clients",
)  # fmt: skip
_VOUCHED = ("trust_domain", "ca_sha256")
_PARTY = ("organisation", "trust_domain", "grpc", "link", "ca_sha256")


def _value(value: JsonValue) -> str:
    # a basic string of TOML is one of JSON, for what an agreement may contain
    if isinstance(value, tuple):
        lines = "".join(f"    {_value(each)},\n" for each in value)
        return f"[\n{lines}]" if value else "[]"
    return json.dumps(value, ensure_ascii=False)


def _certificate(pem: str) -> str:
    return f'ca = """\n{pem.strip()}\n"""'
