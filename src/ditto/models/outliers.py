"""Channels of hidden states that are thousands of times larger than the others.

Trained decoders of the Llama type have a few: SmolLM2-135M has one that reaches 29,000
where half of all values are below 4, at the first token of every text. A tensor has one
type, so beside them the others keep few bits, and a sum of their squares fewer still.

What holds them is free of communication, and exact: the channels are put first and
divided by a power of two, in all weights that write hidden states, and multiplied by it
in the normalisations that read them. The sums of squares of both kinds of channels are
kept apart until the end (``layers.rms_norm``). Nothing is learnt from a plan but how
many channels there are and which power it is: the order of channels is inside the
weights, which are secret.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from ditto.errors import SetupError
from ditto.fixedpoint import Array
from ditto.models.layers import Params
from ditto.models.model import Model

_READ = ("query", "key", "value", "gate", "up")
_WRITTEN = ("output", "down")


def largest_channels(model: Model, ids: Array, mask: Array) -> Array:
    """The channels of hidden states by how far they go on samples (B, S), largest
    first; what the mask hides does not count."""
    inputs = jnp.asarray(ids), jnp.asarray(mask)
    states = model.family.hidden_states(model.config, model.params, *inputs)
    seen = np.asarray(mask, bool)
    most = np.max([np.abs(np.asarray(x))[seen].max(0) for x in states], 0)
    return np.argsort(-most, kind="stable")


def split_outliers(model: Model, order: Array, count: int, shift: int) -> Model:
    """The same model with the first ``count`` channels of ``order`` put first, and
    divided by 2^shift.

    It is made to be compiled, and is not written: see ``Model.tensors``.
    """
    width = model.params["embeddings"]["word"].shape[1]
    if model.family.layer_scope != "decoder.layer" or "last_norm" not in model.params:
        raise SetupError(f"Models of type {model.family.model_type} are not split.")
    if not 0 < count < width or shift < 0:
        raise SetupError(
            f"{count} of {width} channels divided by 2^{shift}: there must be some of "
            "both kinds, and no negative power."
        )
    whole = np.concatenate([order[:count], np.sort(order[count:])])
    factor = np.where(np.arange(width) < count, 2.0**shift, 1.0).astype(np.float32)

    def norm(p: Params, power: int = 1) -> Params:
        return {**p, "gamma": p["gamma"][whole] * factor**power}

    def written(p: Params) -> Params:
        bias = {"b": p["b"][whole] / factor} if "b" in p else {}
        return {"w": p["w"][:, whole] / factor, **bias}

    def layer_split(layer: Params) -> Params:
        changed = dict(layer)
        for name in ("attention_norm", "feed_norm"):
            changed[name] = norm(layer[name])
        for name in _READ:
            changed[name] = {**layer[name], "w": layer[name]["w"][whole]}
        for name in _WRITTEN:
            changed[name] = written(layer[name])
        return changed

    p = model.params
    heads: Params = {}
    for name in ("lm_head", "score"):
        if name in p:
            heads[name] = {"w": p[name]["w"][whole]}
    is_tied = not heads  # then the head reads by the table that is divided
    params: Params = {
        "embeddings": {"word": p["embeddings"]["word"][:, whole] / factor},
        "layers": [layer_split(layer) for layer in p["layers"]],
        "last_norm": norm(p["last_norm"], 2 if is_tied else 1),
        **heads,
    }
    changed = model.with_config(outlier_channels=count, outlier_shift=shift)
    return replace(changed, params=params)
