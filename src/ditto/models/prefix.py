"""A model whose texts all begin with the same tokens, no secret to its owner.

Tokens of a decoder look back only, so the keys and values of a beginning do not depend
on what follows. The owner computes them once, in the clear, and shares them with the
weights; a prompt then costs what its other tokens cost.

Who sees what: the owner and its clients know the prefix. The parties get shares of its
keys and values, uniform as those of weights are, and learn how many tokens it has.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ditto.errors import SetupError
from ditto.models.model import Model
from ditto.models.past import PREFIX


def with_prefix(model: Model, ids: Sequence[int]) -> Model:
    """The same model, each of whose texts goes on after these tokens."""
    if not 0 < len(ids) < model.max_tokens:
        raise SetupError(
            f"The public prefix has {len(ids)} tokens; it has 1 at least, and "
            f"{model.max_tokens - 1} at most, so that there is room for a text after "
            "it."
        )
    if model.prefix_length:
        raise SetupError("This model has a public prefix already.")
    given = np.array([ids], np.int32), np.array([len(ids)], np.int32)
    _, cache = model.prefill(model.params, *given)
    pairs = [(np.asarray(keys), np.asarray(values)) for keys, values in cache]
    return replace(model, params={**model.params, PREFIX: pairs})
