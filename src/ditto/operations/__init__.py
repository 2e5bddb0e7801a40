"""What a graph may compute: one table of operations, and their meaning in JAX.

In topological order: arguments, table, parameters, own, interpreter, evaluation, spu.
"""

from ditto.operations.evaluation import (
    PRIMITIVES,
    Sampled,
    Settle,
    Signature,
    abstract,
    evaluate,
    evaluate_plain,
    infer,
    run,
    walk,
    walk_samples,
)
from ditto.operations.parameters import encode_param
from ditto.operations.table import TRAITS, Trait, Traits, has

__all__ = [
    "PRIMITIVES",
    "TRAITS",
    "Sampled",
    "Settle",
    "Signature",
    "Trait",
    "Traits",
    "abstract",
    "encode_param",
    "evaluate",
    "evaluate_plain",
    "has",
    "infer",
    "run",
    "walk",
    "walk_samples",
]
