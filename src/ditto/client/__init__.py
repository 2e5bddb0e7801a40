"""The client: text in, shares out; answers opened, tokens chosen."""

from ditto.client.sampling import Sampler, Sampling
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
    "Tokenizer",
    "bucket_of",
    "pad_batch",
]
