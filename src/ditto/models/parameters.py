"""Parameters as a tree, and as the named tensors of a checkpoint.

A key map says for every place in the tree, as a path, under which name its tensor is
published. ``turned`` says which linear maps are published as (out, in); ours are
(in, out).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ditto.errors import CheckpointError
from ditto.models.checkpoint import Tensors
from ditto.models.layers import Params

Path = tuple[Any, ...]
KeyMap = dict[Path, str]
Turned = Callable[[Path], bool]


def to_tree(
    keys: KeyMap, tensors: Mapping[str, Any], turned: Turned, *, layers: int, what: str
) -> Params:
    """The tree, from a checkpoint's tensors; refuses by name what is missing."""
    params: Params = {"layers": [{} for _ in range(layers)]}
    for path, key in keys.items():
        if key not in tensors:
            raise CheckpointError(f"The checkpoint has no {key!r}, which {what} needs.")
        place: Any = params
        for step in path[:-1]:
            inside = isinstance(place, list)
            place = place[step] if inside else place.setdefault(step, {})
        array = np.asarray(tensors[key])
        place[path[-1]] = array.T if turned(path) else array
    return params


def to_tensors(keys: KeyMap, params: Params, turned: Turned) -> Tensors:
    """The inverse of ``to_tree``."""
    tensors: Tensors = {}
    for path, key in keys.items():
        place: Any = params
        for step in path:
            place = place[step]
        array = np.asarray(place)
        tensors[key] = array.T if turned(path) else array
    return tensors
