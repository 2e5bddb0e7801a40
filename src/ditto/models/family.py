"""What a model file says of its family: one ``Family``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import jax

from ditto.files import JsonValue
from ditto.models.head import Head
from ditto.models.layers import Params
from ditto.models.parameters import Parameters

Cache = list[tuple[jax.Array, jax.Array]]
"""The keys and values of every layer, each (B, heads, T, D)."""


class ModelConfig(Protocol):
    """What every configuration answers, whatever else its family has."""

    @property
    def vocab_size(self) -> int:
        """Tokens that the model knows."""

    @property
    def num_hidden_layers(self) -> int:
        """Layers."""

    @property
    def num_labels(self) -> int:
        """Labels of a classification head."""

    @property
    def type_vocab_size(self) -> int:
        """Types of tokens, such as the two texts of a pair; 0 if there are none."""

    @property
    def max_tokens(self) -> int:
        """The longest text."""


Config = TypeVar("Config", bound=ModelConfig)
Config_contra = TypeVar("Config_contra", bound=ModelConfig, contravariant=True)


class Forward(Protocol[Config_contra]):
    """The model with a head: ids, mask and types are (B, S).

    The mask may be of integers, or of float32 if it is to be secret.
    """

    def __call__(
        self,
        config: Config_contra,
        head: Head,
        p: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
        /,
    ) -> jax.Array:
        """Logits or embeddings."""


class HiddenStates(Protocol[Config_contra]):
    """The same without a head."""

    def __call__(
        self,
        config: Config_contra,
        p: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
        /,
    ) -> list[jax.Array]:
        """The embeddings, and what every layer makes of them, each (B, S, H)."""


class FirstState(Protocol[Config_contra]):
    """The same, of the first token after the last layer alone."""

    def __call__(
        self,
        config: Config_contra,
        p: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
        /,
    ) -> jax.Array:
        """Its state, (B, 1, H)."""


@dataclass(frozen=True)
class Family(Generic[Config]):
    """All that is known of a family of models."""

    model_type: str
    """As ``config.json`` says it."""
    read_config: Callable[[Mapping[str, JsonValue]], Config]
    """From a Hugging Face configuration; refuses what the code does not do."""
    architectures: Mapping[str, Head]
    """The classes that Hugging Face saves, and the heads they have."""
    parameters: Callable[[Config, Head], Parameters]
    forward: Forward[Config]
    hidden_states: HiddenStates[Config]
    layer_scope: str
    """Layer k is computed in the named scope ``{layer_scope}.{k}``."""
    base_model_prefix: str
    """Before the names of all parameters that belong to no head, as in Hugging Face."""
    prefill: (
        Callable[[Config, Params, jax.Array, jax.Array], tuple[jax.Array, Cache]] | None
    ) = None
    """Of ids (B, S) and lengths (B): the logits (B, V) that follow prompts of these
    lengths, and their cache."""
    decode: (
        Callable[[Config, Params, jax.Array, jax.Array, Cache], tuple[jax.Array, Cache]]
        | None
    ) = None
    """Of ids (B), positions (B) and a cache with room for them: the logits (B, V) that
    follow one more token, and the cache with it."""
    more_heads: tuple[Head, ...] = ()
    """Heads that no class has by itself."""
    first_state: FirstState[Config] | None = None
    """For what needs no other token of the last layer, if that is cheaper."""
    attribute_map: Mapping[str, str] = field(default_factory=dict)
    """The family's own names for what others call ``hidden_size`` and the like."""
    norm_readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For RMS normalisations of a layer, the linear maps that read them and nothing
    else: ``ditto.models.preparation`` puts more into those."""
    inner_states: (
        Callable[
            [Config, Params, jax.Array, jax.Array],
            tuple[list[jax.Array], list[jax.Array]],
        ]
        | None
    ) = None
    """Of ids and mask (B, S): the hidden states, and what ``down`` of each layer reads,
    which is in proportion to what ``up`` makes. ``ditto.models.preparation`` finds
    outliers by them, in a family that has them; else None."""
    scalable_queries: str | None = None
    """The part of a layer that queries are in proportion to, and nothing else."""
    centred_maps: tuple[str, ...] = ()
    """Linear maps of a layer whose results only layer normalisations see, after the
    residual is added: ``ditto.models.preparation`` takes the mean off each row of their
    weights. The configuration says so in ``centred_maps``."""
    centred_tables: tuple[str, ...] = ()
    """Embeddings that are added up for a layer normalisation alone, likewise."""
    residual_maps: tuple[str, ...] = ()
    """Linear maps that a new model draws smaller, as what they give is added up over
    two of them in each layer."""

    maps_around_activation: tuple[str, str] | None = None
    """The linear maps of a layer before and after its activation, if nothing else
    stands between them."""

    @property
    def heads(self) -> tuple[Head, ...]:
        """What models of this family can be used for."""
        return (*dict.fromkeys(self.architectures.values()), *self.more_heads)

    @property
    def is_decoder(self) -> bool:
        """Whether a token sees only those before it."""
        return self.decode is not None

    @property
    def has_outliers(self) -> bool:
        """Whether some channels of a trained model go much further than all others,
        which lose bits beside them."""
        return self.inner_states is not None


AnyFamily = Family[Any]
"""A family whose configuration is not known here."""
