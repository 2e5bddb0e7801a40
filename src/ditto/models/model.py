"""A model ready to be applied, from a checkpoint."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import jax

from ditto.errors import CheckpointError, SetupError
from ditto.files import Json, JsonValue
from ditto.models.checkpoint import Checkpoint, read_checkpoint
from ditto.models.families import find_family
from ditto.models.family import AnyFamily, Cache, ModelConfig
from ditto.models.head import Head
from ditto.models.layers import Params
from ditto.models.parameters import (
    Parameters,
    check_layers,
    load_params,
    save_params,
    without_prefix,
)
from ditto.models.past import prefix_length
from ditto.models.pooling import embed, embedding_parameters
from ditto.models.sentence import Pooling, SentenceModules
from ditto.models.tensors import Tensors

Step = Callable[..., tuple[jax.Array, Cache]]

PREPARED = "scaled_queries"
"""What the configuration of a model that was prepared for plans says, and no other."""


@dataclass(frozen=True)
class Model:
    """A model of a family, with a head and its parameters."""

    family: AnyFamily
    head: Head
    published: Mapping[str, JsonValue]
    """The configuration as ``config.json`` has it."""
    params: Params
    sentence: SentenceModules = field(default_factory=SentenceModules)
    """How an embedding is made; of no use to other heads."""

    @cached_property
    def config(self) -> ModelConfig:
        """The configuration as the model file reads it."""
        return read_config(self.family, self.published)

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(array.size for array in jax.tree.leaves(self.params))

    @cached_property
    def apply(self) -> Callable[..., jax.Array]:
        """A function of parameters, ids (B, S), mask (B, S) and perhaps types."""
        if self.head is Head.FEATURE_EXTRACTION:
            return self._embed
        return partial(self.family.forward, self.config, self.head)

    def _embed(
        self,
        params: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
    ) -> jax.Array:
        family, inputs = self.family, (self.config, params, ids, mask, types)
        if self.sentence.pooling is Pooling.CLS and family.first_state is not None:
            last = family.first_state(*inputs)
        else:
            *_, last = family.hidden_states(*inputs)
        with jax.named_scope(self.head.value):
            return embed(self.sentence, params, last, mask)

    @property
    def prefix_length(self) -> int:
        """How many tokens stand before every text."""
        return prefix_length(self.params)

    @property
    def max_tokens(self) -> int:
        """The longest text: what the network can take, or what is said to count."""
        limit = self.sentence.encoding.max_seq_length
        if self.head is not Head.FEATURE_EXTRACTION or limit is None:
            return self.config.max_tokens - self.prefix_length
        return min(limit, self.config.max_tokens)

    @cached_property
    def trace(self) -> Callable[..., tuple[list[jax.Array], jax.Array]]:
        """As ``apply``, with a list of the hidden states before the answer."""
        config, apply = self.config, self.apply

        def traced(
            params: Params, *inputs: jax.Array
        ) -> tuple[list[jax.Array], jax.Array]:
            states = self.family.hidden_states(config, params, *inputs)
            return states, apply(params, *inputs)

        return traced

    @cached_property
    def prefill(self) -> Step:
        """A function of parameters, ids (B, S) and lengths (B)."""
        return partial(self._step(self.family.prefill), self.config)

    @cached_property
    def decode(self) -> Step:
        """A function of parameters, ids (B), positions (B) and the cache."""
        return partial(self._step(self.family.decode), self.config)

    def _step(self, step: Step | None) -> Step:
        if step is None or self.head is not Head.TEXT_GENERATION:
            raise SetupError(
                f"A {self.family.model_type} model with head {self.head.value!r} does "
                "not generate text."
            )
        return step

    def with_config(self, **changes: JsonValue) -> "Model":
        """The same parameters under another configuration.

        Changes have Hugging Face's common names, such as ``hidden_act``.
        """
        return replace(self, published=changed(self.family, self.published, changes))

    def tensors(self) -> Tensors:
        """The parameters under the names of the checkpoint."""
        if PREPARED in self.published:
            raise SetupError(
                "This model was prepared for plans, in a way that other software would "
                "not know of. Write the model that it was made from."
            )
        parameters: Parameters = self.family.parameters(self.config, self.head)
        if self.head.is_embedding:
            parameters = without_prefix(parameters, self.family.base_model_prefix)
        return save_params(parameters, self.params)


def load_model(folder: str | Path, head: str | None = None) -> Model:
    """The model in a Hugging Face folder."""
    return from_checkpoint(read_checkpoint(folder), head)


def from_checkpoint(checkpoint: Checkpoint, head: str | None = None) -> Model:
    """The model of a checkpoint, with the head it was saved with unless named.

    What a folder of sentence-transformers is for is an embedding.
    Raises CheckpointError, saying why, for any model outside the supported set.
    """
    family = find_family(checkpoint.config.get("model_type"))
    saved = Head.FEATURE_EXTRACTION if checkpoint.sentence else None
    chosen = find_head(
        family, head or saved or _saved_head(family, checkpoint.architecture)
    )
    config = read_config(family, checkpoint.config)
    parameters = family.parameters(config, chosen)
    prefix = family.base_model_prefix
    if not any(name.startswith(prefix) for name in checkpoint.tensors):
        parameters = without_prefix(parameters, prefix)
    sentence = checkpoint.sentence or SentenceModules()
    if chosen is Head.FEATURE_EXTRACTION:
        parameters |= embedding_parameters(sentence)
    what = f"a {family.model_type} model with head {chosen.value!r}"
    sizes = _sizes(family, checkpoint.config)
    params = load_params(parameters, checkpoint.tensors, what, sizes)
    layers = family.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    check_layers(parameters, checkpoint.tensors, layers, config.num_hidden_layers)
    return Model(family, chosen, checkpoint.config, params, sentence)


def find_head(family: AnyFamily, name: str) -> Head:
    """A head of a family by its name."""
    head = next((head for head in family.heads if head == name), None)
    if head is None:
        raise CheckpointError(
            f"There is no head {name!r} of {family.model_type}; there are: "
            f"{', '.join(family.heads)}."
        )
    return head


def read_config(family: AnyFamily, published: Mapping[str, JsonValue]) -> ModelConfig:
    """The configuration, from what ``config.json`` has."""
    _check_sizes(family, published)
    try:
        config: ModelConfig = family.read_config(published)
    except KeyError as missing:
        raise CheckpointError(f"config.json has no {missing}.") from None
    return config


_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def _check_sizes(family: AnyFamily, published: Mapping[str, JsonValue]) -> None:
    """Refuse what is no size, and heads that do not share the width evenly."""
    names = {name: family.attribute_map.get(name, name) for name in _SIZES}
    for name in names.values():
        size = published.get(name, 1)
        if size is not None and (type(size) is not int or size < 1):
            raise CheckpointError(
                f"config.json says {name}={size!r}; it is a whole number, 1 at least."
            )
    width, heads = names["hidden_size"], names["num_attention_heads"]
    if published.get(width, 1) % published.get(heads, 1):
        raise CheckpointError(
            f"config.json says {width}={published[width]} and {heads}="
            f"{published[heads]}: the first must be a multiple of the second."
        )


def _sizes(family: AnyFamily, published: Mapping[str, JsonValue]) -> dict[str, int]:
    """The sizes of a configuration, by their fields."""
    names = [family.attribute_map.get(name, name) for name in _SIZES]
    sizes = {name: published[name] for name in names if published.get(name)}
    labels = published.get("id2label")
    return sizes | ({"labels in id2label": len(labels)} if labels else {})


def changed(
    family: AnyFamily,
    published: Mapping[str, JsonValue],
    changes: Mapping[str, JsonValue],
) -> Json:
    """A published configuration with changes under Hugging Face's common names."""
    names = family.attribute_map
    return {**published, **{names.get(n, n): value for n, value in changes.items()}}


def _saved_head(family: AnyFamily, architecture: str) -> Head:
    head = family.architectures.get(architecture)
    if head is None:
        raise CheckpointError(
            f"{architecture} is not supported; of this family these are: "
            f"{', '.join(family.architectures)}."
        )
    return head
