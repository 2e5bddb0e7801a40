"""Models of any size with random weights: they cost what trained ones cost."""

import numpy as np

from ditto.errors import SetupError
from ditto.models import bert, gpt2
from ditto.models.layers import Params
from ditto.models.registry import Model

DEVIATION = 0.04
"""Of weights, about that of trained models."""


def random_bert(
    width: int, layers: int, heads: int, *, vocabulary: int = 30522, seed: int = 0
) -> Model:
    """BERT for sequence classification."""
    config = bert.BertConfig(
        family="bert",
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        inner=4 * width,
        positions=512,
        types=2,
        activation="gelu",
        eps=1e-12,
        labels=2,
        first_position=0,
    )
    draw = _Drawing(seed)
    names = ("query", "key", "value", "output")
    params: Params = {
        "embeddings": {
            "word": draw.normal(vocabulary, width),
            "position": draw.normal(config.positions, width),
            "type": draw.normal(config.types, width),
            "norm": draw.norm(width),
        },
        "layers": [
            {
                **{name: draw.dense(width, width) for name in names},
                "attention_norm": draw.norm(width),
                "up": draw.dense(width, config.inner),
                "down": draw.dense(config.inner, width),
                "output_norm": draw.norm(width),
            }
            for _ in range(layers)
        ],
        "pooler": draw.dense(width, width),
        "classifier": draw.dense(width, config.labels),
    }
    return Model("bert", "classify", config, params, bert.build(config, "classify"))


def random_gpt2(
    width: int, layers: int, heads: int, *, vocabulary: int = 50257, seed: int = 0
) -> Model:
    """GPT-2 as a language model."""
    config = gpt2.Gpt2Config(
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        inner=4 * width,
        positions=1024,
        activation="gelu_new",
        eps=1e-5,
        labels=2,
    )
    draw = _Drawing(seed)
    params: Params = {
        "embeddings": {
            "word": draw.normal(vocabulary, width),
            "position": draw.normal(config.positions, width),
        },
        "layers": [
            {
                "attention_norm": draw.norm(width),
                "qkv": draw.dense(width, 3 * width),
                "output": draw.dense(width, width),
                "feed_norm": draw.norm(width),
                "up": draw.dense(width, config.inner),
                "down": draw.dense(config.inner, width),
            }
            for _ in range(layers)
        ],
        "last_norm": draw.norm(width),
    }
    return Model("gpt2", "generate", config, params, gpt2.build(config, "generate"))


def random_model(family: str, width: int, layers: int, heads: int) -> Model:
    """A model by the name of its family."""
    if family not in ("bert", "gpt2"):
        raise SetupError(f"There is no random model of {family!r}: bert or gpt2.")
    build = random_bert if family == "bert" else random_gpt2
    return build(width, layers, heads)


class _Drawing:
    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int) -> np.ndarray:
        drawn = self._rng.standard_normal(shape, np.float32)
        return np.asarray(drawn * np.float32(DEVIATION))

    def dense(self, inner: int, outer: int) -> Params:
        return {"w": self.normal(inner, outer), "b": self.normal(outer)}

    def norm(self, width: int) -> Params:
        return {"gamma": 1 + self.normal(width), "beta": self.normal(width)}
