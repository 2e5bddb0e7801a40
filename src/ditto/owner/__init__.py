"""The owner of a model: plans from samples, signatures for clients, shares for parties.

In topological order: sample_text, samples, plan_cache, plan_key,
plans; signatures, publisher, bundle, remote.
"""

from ditto.owner.bundle import Description, Exported, export_bundle
from ditto.owner.publisher import Publisher
from ditto.owner.signatures import signature_of

__all__ = ["Description", "Exported", "Publisher", "export_bundle", "signature_of"]
