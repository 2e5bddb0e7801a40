"""The client: text in, shares out; answers opened, tokens chosen. No jax, no spu.

In topological order: signature, shares, opening, out_of_range, sampling, tokens,
questions, reading, bundle, running, batching, asking, answering; connection, remote,
releases and remote_client for a deployment. The tokenizer is loaded when it is first
used.
"""

from typing import TYPE_CHECKING

from ditto.client.opening import answer_in_range, open_outputs
from ditto.client.sampling import Sampler, Sampling
from ditto.client.shares import (
    share_arguments,
    share_input,
    share_inputs,
    share_question,
)
from ditto.client.signature import Signature

if TYPE_CHECKING:
    from ditto.client.tokens import (
        BUCKETS,
        Batch,
        Encoded,
        Tokenizer,
        bucket_of,
        pad_batch,
    )

__all__ = [
    "BUCKETS",
    "Batch",
    "Encoded",
    "Sampler",
    "Sampling",
    "Signature",
    "Tokenizer",
    "answer_in_range",
    "bucket_of",
    "open_outputs",
    "pad_batch",
    "share_arguments",
    "share_input",
    "share_inputs",
    "share_question",
]


def __getattr__(name: str) -> object:
    """Load the tokenizer when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'ditto.client' has no attribute {name!r}")
    import ditto.client.tokens

    return getattr(ditto.client.tokens, name)
