"""Who is who: identities, authorities that vouch for them, and how both are checked.

Every organisation has an authority of its own. What an authority signs counts for its
own trust domain and for no other, so that none can speak in another's name.

In topological order: identity, peers, authority, credentials.
"""

from ditto.trust.authority import Authority, Issued, issue, make_authority
from ditto.trust.credentials import Credentials, load_credentials
from ditto.trust.identity import Cause, Identity, Role, identity_of
from ditto.trust.peers import TrustedDomains, Usage, fingerprint, read_certificate

__all__ = [
    "Authority",
    "Cause",
    "Credentials",
    "Identity",
    "Issued",
    "Role",
    "TrustedDomains",
    "Usage",
    "fingerprint",
    "identity_of",
    "issue",
    "load_credentials",
    "make_authority",
    "read_certificate",
]
