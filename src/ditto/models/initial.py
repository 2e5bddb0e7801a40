"""Models to be trained: a configuration with new weights, or a checkpoint under a head
that it was not saved with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ditto.errors import CheckpointError
from ditto.files import Json, JsonValue
from ditto.models.checkpoint import Checkpoint
from ditto.models.families import find_family
from ditto.models.family import AnyFamily
from ditto.models.head import Head
from ditto.models.layers import Params
from ditto.models.model import Model, find_head, read_config
from ditto.models.parameters import (
    Parameters,
    Path,
    initial_params,
    load_params,
    save_params,
)
from ditto.models.sentence import SentenceModules

_DEVIATION = 0.02
"""Hugging Face's ``initializer_range``, unless a configuration has its own."""


@dataclass(frozen=True)
class NewHead:
    """A model to be trained, and the tensors of it that were drawn at random."""

    model: Model
    drawn: tuple[str, ...]


def new_model(config: Mapping[str, JsonValue], seed: int) -> Model:
    """A model of a Hugging Face configuration, with weights to train from."""
    family = find_family(config.get("model_type"))
    names = config.get("architectures") or [next(iter(family.architectures))]
    published = {**config, "architectures": [names[0]]}
    head = family.architectures.get(names[0])
    if head is None:
        raise CheckpointError(
            f"{names[0]} is not supported; of this family these are: "
            f"{', '.join(family.architectures)}."
        )
    parameters = family.parameters(read_config(family, published), head)
    return Model(family, head, published, _drawn(family, published, parameters, seed))


def with_head(
    checkpoint: Checkpoint, head: Head, labels: Sequence[str], seed: int
) -> NewHead:
    """The model of a checkpoint under a head, to be trained for these labels.

    What belongs to the head, and is not there in this shape, is drawn at random. If the
    checkpoint names other labels, its last layer is drawn anew as well.
    """
    family = find_family(checkpoint.config.get("model_type"))
    published = head_config(family, checkpoint.config, find_head(family, head), labels)
    config = read_config(family, published)
    parameters = family.parameters(config, head)
    params = _drawn(family, published, parameters, seed)
    tensors = save_params(parameters, params)
    body = _body(family, published)
    has_labels = _labels(checkpoint.config) in ([], [*labels])
    drawn = []
    for path, parameter in parameters.items():
        key = parameter.key
        bare = key.removeprefix(family.base_model_prefix)
        saved = checkpoint.tensors.get(key, checkpoint.tensors.get(bare))
        is_last = tensors[key].shape[0] == len(labels) and path not in body
        if saved is None and path in body:
            raise CheckpointError(
                f"The checkpoint has no {key!r}, which every {family.model_type} needs."
            )
        fits = saved is not None and saved.shape == tensors[key].shape
        if path in body or (fits and (has_labels or not is_last)):
            tensors[key] = np.asarray(saved)  # load_params refuses a wrong shape
        else:
            drawn.append(key)
    what = f"a {family.model_type} model with head {head.value!r}"
    params = load_params(parameters, tensors, what)
    model = Model(family, head, published, params, SentenceModules())
    return NewHead(model, tuple(drawn))


def head_config(
    family: AnyFamily,
    config: Mapping[str, JsonValue],
    head: Head,
    labels: Sequence[str],
) -> Json:
    """A configuration as Hugging Face saves it for a head with these labels."""
    architecture = next(
        name for name, its_head in family.architectures.items() if its_head is head
    )
    published: Json = {**config, "architectures": [architecture]}
    for name in ("_name_or_path", "torch_dtype"):
        published.pop(name, None)
    published["dtype"] = "float32"
    if labels:
        published["id2label"] = {str(k): label for k, label in enumerate(labels)}
        published["label2id"] = {label: k for k, label in enumerate(labels)}
        published["problem_type"] = "single_label_classification"
    return published


def _drawn(
    family: AnyFamily,
    published: Mapping[str, JsonValue],
    parameters: Parameters,
    seed: int,
) -> Params:
    deviation = published.get("initializer_range", _DEVIATION)
    if not isinstance(deviation, int | float) or not 0 < deviation <= 1:
        raise CheckpointError(
            f"config.json says initializer_range={deviation!r}; it is above 0 and at "
            "most 1."
        )
    layers = read_config(family, published).num_hidden_layers
    smaller = dict.fromkeys(family.residual_maps, math.sqrt(2 * layers))
    return initial_params(parameters, seed, float(deviation), smaller)


def _body(family: AnyFamily, published: Mapping[str, JsonValue]) -> set[Path]:
    """The paths of parameters that the family has under every head."""
    config = read_config(family, published)
    first, *others = ({*family.parameters(config, head)} for head in family.heads)
    return first.intersection(*others)


def _labels(config: Mapping[str, JsonValue]) -> list[str]:
    """The names of the labels, if they have names of their own."""
    named = config.get("id2label") or {}
    names = [str(named[key]) for key in sorted(named, key=int)]
    return [] if names == [f"LABEL_{k}" for k in range(len(names))] else names
