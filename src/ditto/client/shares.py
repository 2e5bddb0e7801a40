"""Arguments in the clear, as what each of three parties gets of them."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ditto.client.signature import InputSignature, Signature
from ditto.errors import PlanError, SetupError
from ditto.fixedpoint import encode
from ditto.plan import InputRole
from ditto.sharing import deal, deal_indices

Arrays = dict[str, npt.NDArray[np.generic]]


_ASKED = (InputRole.SECRET, InputRole.PUBLIC)
"""Roles of what a client gives; the parties hold the rest."""


def share_inputs(
    inputs: Iterable[InputSignature], values: Iterable[npt.ArrayLike]
) -> list[Arrays]:
    """What each party gets of several arguments, as arrays by value."""
    dealt: list[Arrays] = [{}, {}, {}]
    for spec, value in zip(inputs, values, strict=True):
        for arrays, part in zip(dealt, share_input(spec, value), strict=True):
            arrays.update(part)
    return dealt


def share_question(
    signature: Signature, values: Iterable[npt.ArrayLike], public: Collection[int]
) -> list[Arrays]:
    """What each party gets of what a client asks, as arrays by value.

    Raises PlanError if the plan would make a value public whose position is not among
    those in ``public``.
    """
    asked = [spec for spec in signature.inputs if spec.role in _ASKED]
    for k, spec in enumerate(asked):
        if spec.role is InputRole.PUBLIC and k not in public:
            raise PlanError(f"The plan would make {spec.name} public.")
    return share_inputs(asked, values)


def share_arguments(
    signature: Signature, leaves: Sequence[npt.ArrayLike]
) -> list[Arrays]:
    """What each party gets of all arguments of a plan, weights and states included."""
    if len(leaves) != len(signature.inputs):
        raise SetupError(
            f"The plan takes {len(signature.inputs)} arrays, got {len(leaves)}."
        )
    return share_inputs(signature.inputs, leaves)


def share_input(spec: InputSignature, value: npt.ArrayLike) -> list[Arrays]:
    """What each party gets of one argument, in all its encodings."""
    array = np.asarray(value)
    if array.shape != spec.shape:
        raise SetupError(
            f"{spec.name} has shape {spec.shape} in the plan, got {array.shape}. "
            f"A plan is made for one shape; pad, or compile another."
        )
    dealt: list[Arrays] = [{}, {}, {}]
    for encoding in spec.encodings:
        v, kind = encoding.value, encoding.type
        if kind is None:
            for arrays in dealt:
                arrays[f"public{v}"] = array.astype(spec.dtype)
        elif encoding.depth is not None:
            depth = check_indices(spec, encoding.depth, array)
            indices = deal_indices(array, depth=depth, bits=kind.bits)
            for arrays, held in zip(dealt, indices, strict=True):
                arrays[f"keys{v}"] = held.keys
        else:
            shares = deal(encode(array, kind, name=spec.name), kind)
            for arrays, share in zip(dealt, shares, strict=True):
                arrays[f"first{v}"], arrays[f"second{v}"] = share.first, share.second
    return dealt


def check_indices(
    spec: InputSignature, depth: int, array: npt.NDArray[np.generic]
) -> int:
    """The length of the table that an argument holds indices of; they are in it."""
    if array.size and not (array.min() >= 0 and array.max() < depth):
        raise SetupError(
            f"{spec.name} holds an index outside 0..{depth - 1}, the table's rows."
        )
    return depth
