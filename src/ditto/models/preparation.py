"""The same model in weights that suit plans: gains folded, outliers split off, gated
channels levelled, queries scaled, means taken off.

All are free of communication, and exact; all are inside the weights, which are secret.

*Gains.* An RMS normalisation multiplies each channel by a learnt gain. Where only
linear maps read it, the gains are put into those: one product per value less.

*Outliers.* Trained decoders of the Llama type have a few channels of hidden states that
go hundreds of times further than the others: SmolLM2-135M has one that reaches 29,000
where half of all values are below 4, at the first token of every text. A tensor has one
type, so beside them the others keep few bits, and a sum of their squares fewer still.
So these channels are put first and divided by a power of two, after the embeddings and
in all weights of layers that write hidden states. Normalisations sum up the squares of
both kinds apart, and multiply the few by that power when all are small
(``layers.rms_norm``). A plan tells how many channels there are and which power it is;
which ones they are is not in it.

*Gated channels.* A gated feed-forward multiplies two maps of its input, ``gate`` and
``up``, and ``down`` reads the product. A few channels whose columns are large in both
go far together: one of SmolLM2-135M goes beyond 2,500 where half of the channels of its
layer stay below 0.8, so what rounding takes of its row in ``down`` counts as often.
The product is in proportion to ``up``: such a column is divided by a power of two, of
half of the doublings by which it goes further, and its row in ``down`` multiplied by
it. With all of them, the column would lose what its row wins.

*Queries.* Attention divides its queries by the root of their width. That is free if it
is a power of two, as for heads of 64; for heads of 32 or 128 it takes two rounds a
layer. Then the maps that make queries are divided instead.

*Means.* A layer normalisation takes the mean off each row. So whatever a map adds to
all channels of a row alike is lost there, and can be left out of its weights and its
bias. Then the mean is that of the residual, which is known while the map is still
multiplied: it takes no round of its own. Tables of embeddings that go to a
normalisation and nowhere else lose theirs likewise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import SetupError
from ditto.files import JsonValue
from ditto.fixedpoint import Array
from ditto.models.family import AnyFamily
from ditto.models.head import Head
from ditto.models.layers import Params
from ditto.models.model import PREPARED, Model
from ditto.models.past import PREFIX

_WRITERS = ("output", "down")
"""Linear maps of a layer that write hidden states."""
NEEDED, SPLIT = 64.0, 16.0
"""Outliers are split off where a channel goes so many times as far as half of the
channels of the same layer do; then all that go as many times as far as the second."""
FURTHER = 2
"""Doublings that outliers still go further when they are divided: else they would need
a finer type than the others."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which channels are put first, and what divides them."""

    order: Array
    """Of all channels; the outliers come first."""
    count: int = 0
    shift: int = 0
    """Outliers are divided by 2^shift."""

    def __post_init__(self) -> None:
        if not 0 <= self.count < len(self.order) or self.shift < 0:
            raise SetupError(
                f"{self.count} of {len(self.order)} channels divided by "
                f"2^{self.shift}: there must be others, and no negative power."
            )

    @property
    def divisors(self) -> Array:
        """Of all channels in their order."""
        outlying = np.arange(len(self.order)) < self.count
        return np.where(outlying, 2.0**self.shift, 1.0).astype(np.float32)


@dataclass(frozen=True)
class Preparation:
    """How a model is made ready for plans; by default it stays as it is."""

    family: AnyFamily
    split: Split | None = field(default=None, repr=False)
    levels: tuple[Array, ...] | None = field(default=None, repr=False)
    """For every layer, what divides each gated channel."""
    query_factor: float | None = None
    """What queries are multiplied by, if that is done inside the weights."""
    tables: tuple[str, ...] | None = None
    """The embeddings that lose the mean of their rows, as the family's maps do; None if
    neither do."""

    def model(self, model: Model) -> Model:
        """The same model, to be compiled; it is not written: see ``Model.tensors``."""
        changes = (self.split, self.levels, self.query_factor, self.tables)
        if all(change is None for change in changes):
            return model
        named: dict[str, JsonValue] = {PREPARED: self.query_factor is not None}
        if self.tables is not None:
            named["centred_maps"] = True
            named["centred_tables"] = bool(self.tables)
        if self.split is not None:
            named["outlier_channels"] = self.split.count
            named["outlier_shift"] = self.split.shift
        return replace(model.with_config(**named), params=self.params(model.params))

    def params(self, p: Params) -> Params:
        """Its parameters, made of those that it was trained with."""
        if self.query_factor is not None:
            p = {**p, "layers": [self._scaled(layer) for layer in p["layers"]]}
        if self.split is not None:
            p = self._reordered(self.split, p)
        if self.levels is not None:
            pairs = zip(p["layers"], self.levels, strict=True)
            p = {**p, "layers": [_levelled(layer, levels) for layer, levels in pairs]}
        if self.tables is not None:
            p = {**p, "layers": [self._centred(layer) for layer in p["layers"]]}
            tables = {k: _centred(p["embeddings"][k]) for k in self.tables}
            p = {**p, "embeddings": {**p["embeddings"], **tables}}
        return p

    def _centred(self, layer: Params) -> Params:
        """A layer whose maps add nothing to the mean of a row."""
        maps = {
            name: {k: _centred(v) for k, v in layer[name].items()}
            for name in self.family.centred_maps
        }
        return {**layer, **maps}

    def _scaled(self, layer: Params) -> Params:
        name = str(self.family.scalable_queries)
        scaled = {k: v * np.float32(self.query_factor) for k, v in layer[name].items()}
        return {**layer, name: scaled}

    def _reordered(self, split: Split, p: Params) -> Params:
        order = split.order
        heads: Params = {
            name: {"w": p[name]["w"][order]}
            for name in ("lm_head", "score")
            if name in p
        }
        prefix = {PREFIX: p[PREFIX]} if PREFIX in p else {}
        return {
            "embeddings": {"word": p["embeddings"]["word"][:, order]},
            "layers": [self._layer(split, layer) for layer in p["layers"]],
            "last_norm": {"gamma": p["last_norm"]["gamma"][order]},
            **heads,
            **prefix,
        }

    def _layer(self, split: Split, layer: Params) -> Params:
        order, divisors = split.order, split.divisors
        changed = dict(layer)
        for norm, readers in self.family.norm_readers.items():
            gains = layer[norm]["gamma"][order]
            changed[norm] = {}
            for name in readers:
                w = gains[:, None] * layer[name]["w"][order]
                changed[name] = {**layer[name], "w": w}
        for name in _WRITERS:
            changed[name] = {
                k: v[..., order] / divisors for k, v in layer[name].items()
            }
        return changed


def _levelled(layer: Params, levels: Array) -> Params:
    """A layer whose gated channels are divided."""
    up = {name: x / levels for name, x in layer["up"].items()}
    down = {**layer["down"], "w": layer["down"]["w"] * levels[:, None]}
    return {**layer, "up": up, "down": down}


def _centred(rows: Array) -> Array:
    """Without the mean over the last axis; JAX follows it, as training goes through."""
    means: Array = rows.mean(-1, keepdims=True)
    return rows - means


Samples = Callable[[], tuple[Array, Array]]
"""Ids and mask (B, S): each row is a text from its first token on, where outliers are;
what the mask hides does not count."""


def prepare(model: Model, samples: Samples) -> Preparation:
    """How to make a model ready, by its hidden states on samples if they matter; one
    that is ready stays as it is."""
    if PREPARED in model.published:
        return Preparation(model.family)
    inner_states, factor = model.family.inner_states, _query_factor(model)
    if inner_states is None:
        tables = _centred_tables(model)
        return Preparation(model.family, query_factor=factor, tables=tables)
    ids, mask = samples()
    inputs = jnp.asarray(ids), jnp.asarray(mask)
    states, products = inner_states(model.config, model.params, *inputs)
    split, levels = _split(_reached(states, mask)), _levels(_reached(products, mask))
    return Preparation(model.family, split, levels, factor)


def _levels(most: Array) -> tuple[Array, ...]:
    """For each channel half of the doublings by which it goes further than half of the
    channels of its layer, if it is an outlier."""
    times = _times(most)
    outlying = np.where(times > SPLIT, times, 1)
    return tuple(np.exp2(np.round(np.log2(outlying) / 2)))


def _centred_tables(model: Model) -> tuple[str, ...] | None:
    """None of a family that has no layer normalisations; no table where the head of a
    language model reads the words' too."""
    if not model.family.centred_maps:
        return None
    config: Any = model.config  # of a family that has such tables
    names = model.family.centred_tables
    if model.head is Head.FILL_MASK and config.tie_word_embeddings:
        return ()
    return tuple(name for name in names if name in model.params["embeddings"])


def _query_factor(model: Model) -> float | None:
    """None where a power of two does as well."""
    if model.family.scalable_queries is None:
        return None
    config: Any = model.config  # of a family that says what its queries are
    factor = float(config.head_dim) ** -0.5
    return None if math.frexp(factor)[0] == 0.5 else factor


def _split(most: Array) -> Split:
    """Of how far each channel goes in the embeddings and after every layer."""
    times = _times(most).max(0)
    order = np.arange(len(times))
    count = int((times > SPLIT).sum())
    if times.max() <= NEEDED or 2 * count > len(times):
        return Split(order)
    largest = np.argsort(-times, kind="stable")
    order = np.concatenate([largest[:count], np.sort(largest[count:])])
    few, others = most[:, order[:count]].max(-1), most[:, order[count:]].max(-1)
    shift = max(0, math.ceil(math.log2((few / others).max())) - FURTHER)
    return Split(order, count, shift)


def _reached(states: Sequence[jax.Array], mask: Array) -> Array:
    """How far each channel of each state goes."""
    seen = np.asarray(mask, bool)
    return np.stack([np.abs(np.asarray(x))[seen].max(0) for x in states])


def _times(most: Array) -> Array:
    """How many times as far as half of the channels beside it."""
    middle = np.median(most, -1, keepdims=True)
    return np.asarray(most / np.maximum(middle, np.finfo(np.float32).tiny))
