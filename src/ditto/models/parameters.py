"""Parameters as a tree, and as the named tensors of a checkpoint.

A model file lists its parameters once: for every place in the tree, as a path, the name
and the shape of its tensor. Loading, saving and drawing at random follow from the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ditto.errors import CheckpointError
from ditto.fixedpoint import Array
from ditto.models.layers import Params
from ditto.models.tensors import Tensors
from ditto.plan import Tree

Path = tuple[str | int, ...]

DEVIATION = 0.04
"""Of random weights, about that of trained models."""


@dataclass(frozen=True)
class Parameter:
    """One tensor: Hugging Face's name for it, and our shape."""

    key: str
    shape: tuple[int, ...]
    transposed: bool = False
    """Whether it is published as (out, in); our linear maps are (in, out)."""


Parameters = dict[Path, Parameter]
"""All parameters of a model by their path, in the order in which random ones are drawn.
"""


def dense_parameters(
    path: Path,
    key: str,
    inputs: int,
    outputs: int,
    *,
    transposed: bool = True,
    bias: bool = True,
) -> Parameters:
    """Of a linear map, for ``layers.dense``."""
    weight = Parameter(f"{key}.weight", (inputs, outputs), transposed)
    found: Parameters = {(*path, "w"): weight}
    if bias:
        found[*path, "b"] = Parameter(f"{key}.bias", (outputs,))
    return found


def norm_parameters(
    path: Path, key: str, width: int, *, bias: bool = True
) -> Parameters:
    """Of a normalisation, for ``layers.layer_norm``."""
    found: Parameters = {(*path, "gamma"): Parameter(f"{key}.weight", (width,))}
    if bias:
        found[*path, "beta"] = Parameter(f"{key}.bias", (width,))
    return found


def without_prefix(parameters: Parameters, prefix: str) -> Parameters:
    """The same parameters as a model without a head publishes them."""
    return {
        path: Parameter(p.key.removeprefix(prefix), p.shape, p.transposed)
        for path, p in parameters.items()
    }


def load_params(
    parameters: Parameters,
    tensors: Mapping[str, Array],
    what: str,
    sizes: Mapping[str, int] | None = None,
) -> Params:
    """The tree, from a checkpoint's tensors; refuses by name what is missing.

    ``sizes`` are the numbers of ``config.json`` by their fields: who reads that a shape
    is wrong wants to know which of them it is.
    """
    params: Params = {"layers": []}
    for path, parameter in parameters.items():
        key = parameter.key
        if key not in tensors:
            raise CheckpointError(f"The checkpoint has no {key!r}, which {what} needs.")
        array = np.asarray(tensors[key])
        array = array.T if parameter.transposed else array
        if array.shape != parameter.shape:
            order = -1 if parameter.transposed else 1
            published = parameter.shape[::order]
            raise CheckpointError(
                f"The checkpoint's {key!r} is of shape {np.shape(tensors[key])}, but "
                f"config.json makes it {published} for {what}"
                f"{_wrong_fields(published, np.shape(tensors[key]), sizes or {})}: "
                "they do not belong together."
            )
        _put(params, path, array)
    return params


def _wrong_fields(
    expected: tuple[int, ...], actual: tuple[int, ...], sizes: Mapping[str, int]
) -> str:
    """The fields that say what the shape does not."""
    wrong = {a for a, b in zip(expected, actual, strict=False) if a != b}
    fields = [f"{name}={size}" for name, size in sizes.items() if size in wrong]
    return f" (by {' or '.join(fields)})" if fields else ""


def check_layers(
    parameters: Parameters, tensors: Mapping[str, Array], field: str, layers: int
) -> None:
    """Refuse weights of layers that the configuration does not have."""
    for parameter in parameters.values():
        before, number, _ = _numbered(parameter.key)
        if number is None:
            continue
        for name in tensors:
            start, other, _ = _numbered(name)
            if start == before and other is not None and other >= layers:
                raise CheckpointError(
                    f"config.json says {field}={layers}, but the checkpoint has "
                    f"{name!r}, a weight of layer {other}, counted from 0: they do not "
                    "belong together."
                )
        return


def _numbered(name: str) -> tuple[str, int | None, str]:
    """A name before, at and after its first number between dots."""
    parts = name.split(".")
    place = next((k for k, part in enumerate(parts) if part.isdecimal()), None)
    if place is None:
        return name, None, ""
    after = ".".join(parts[place + 1 :])
    return ".".join(parts[:place]), int(parts[place]), after


def save_params(parameters: Parameters, params: Params) -> Tensors:
    """The inverse of ``load_params``."""
    tensors: Tensors = {}
    for path, parameter in parameters.items():
        place: Tree = params
        for step in path:
            place = place[step]
        array = np.asarray(place)
        tensors[parameter.key] = array.T if parameter.transposed else array
    return tensors


def random_params(parameters: Parameters, seed: int) -> Params:
    """Random weights: scales of normalisations around 1, all others around 0."""
    rng = np.random.default_rng(seed)
    params: Params = {"layers": []}
    for path, parameter in parameters.items():
        drawn = rng.standard_normal(parameter.shape, np.float32)
        array = np.asarray(drawn * np.float32(DEVIATION))
        _put(params, path, 1 + array if path[-1] == "gamma" else array)
    return params


def initial_params(
    parameters: Parameters,
    seed: int,
    deviation: float,
    smaller: Mapping[str, float] | None = None,
) -> Params:
    """Weights to train from, as Hugging Face draws them: normal ones of a deviation,
    normalisations 1, biases 0.

    ``smaller`` has the names of linear maps whose deviation is divided by something.
    """
    rng = np.random.default_rng(seed)
    params: Params = {"layers": []}
    for path, parameter in parameters.items():
        if len(parameter.shape) == 1:
            array: Array = np.full(parameter.shape, path[-1] == "gamma", np.float32)
        else:
            scale = deviation / (smaller or {}).get(str(path[-2]), 1.0)
            drawn = rng.standard_normal(parameter.shape, np.float32)
            array = np.asarray(drawn * np.float32(scale))
        _put(params, path, array)
    return params


def _put(params: Params, path: Path, array: Array) -> None:
    place: Tree = params
    for step, following in pairwise(path):
        if isinstance(step, int):
            place.extend({} for _ in range(len(place), step + 1))
            place = place[step]
        else:
            place = place.setdefault(step, [] if isinstance(following, int) else {})
    place[path[-1]] = array
