"""A compute party: keeps plans and shares, runs the one on the other.

In topological order: inputs, comparison, store, running, service, mapped,
bundle, local; and ``server``, which three organisations run.
"""

from ditto.party.local import LocalDeployment, load_local_bundle, serve, store_of
from ditto.party.service import PartyService
from ditto.party.store import PartyStore

__all__ = [
    "LocalDeployment",
    "PartyService",
    "PartyStore",
    "load_local_bundle",
    "serve",
    "store_of",
]
