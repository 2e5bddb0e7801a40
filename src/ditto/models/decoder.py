"""What all decoders compute alike, whatever their layers are.

A family's file has the layers and the last normalisation; the heads and the prompt
follow from these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp

from ditto.models.family import Cache, ModelConfig
from ditto.models.head import Head
from ditto.models.layers import Params, at_position


class DecoderConfig(ModelConfig, Protocol):
    """What is asked of a decoder's configuration besides."""

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether the language model's head is the token embedding again."""


Config = TypeVar("Config", bound=DecoderConfig)


@dataclass(frozen=True)
class Decoder(Generic[Config]):
    """A decoder of a family's own layers; its methods are what a ``Family`` names."""

    run_layers: Callable[
        [Config, Params, jax.Array, jax.Array], tuple[list[jax.Array], Cache]
    ]
    """Of ids (B, S) and mask (B, S): the embeddings and what every layer makes of them,
    each (B, S, H), and the keys and values that later tokens will look at."""
    normalise: Callable[[Config, Params, jax.Array], jax.Array]
    """The last normalisation."""

    def forward(
        self,
        config: Config,
        head: Head,
        p: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
    ) -> jax.Array:
        """The model of ids (B, S) and mask (B, S)."""
        *_, x = self.hidden_states(config, p, ids, mask, types)
        if head is Head.TEXT_GENERATION:
            return self.predict(config, p, x)
        last = mask.astype(jnp.int32).sum(-1) - 1
        x = self.normalise(config, p, at_position(x, last))
        with jax.named_scope(head.value):
            return jnp.asarray(x @ p["score"]["w"])

    def hidden_states(
        self,
        config: Config,
        p: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array | None = None,
    ) -> list[jax.Array]:
        """The embeddings, and what every layer makes of them, each (B, S, H)."""
        del types  # there are none
        return self.run_layers(config, p, ids, mask)[0]

    def prefill(
        self, config: Config, p: Params, ids: jax.Array, lengths: jax.Array
    ) -> tuple[jax.Array, Cache]:
        """The logits (B, V) of what follows prompts of these lengths, and their
        cache."""
        mask = jnp.arange(ids.shape[1]) < lengths[:, None]
        states, cache = self.run_layers(config, p, ids, mask)
        return self.predict(config, p, at_position(states[-1], lengths - 1)), cache

    def predict(self, config: Config, p: Params, x: jax.Array) -> jax.Array:
        """Logits from the last layer's states."""
        x = self.normalise(config, p, x)
        with jax.named_scope(Head.TEXT_GENERATION.value):
            if not config.tie_word_embeddings:
                return jnp.asarray(x @ p["lm_head"]["w"])
            return jnp.asarray(x @ p["embeddings"]["word"].T)
