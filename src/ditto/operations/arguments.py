"""What the arrays that come from outside are computed in."""

import numpy as np
import numpy.typing as npt

from ditto.errors import SetupError

_REAL = ("float16", "bfloat16", "float64", "float32")


def check_arguments(arguments: object) -> None:
    """Refuse an array where all arguments are due: it would be taken row by row."""
    if not isinstance(arguments, (tuple, list)):
        raise SetupError(
            f"The arguments are a tuple of all arguments, such as (x,); got one "
            f"{type(arguments).__name__}."
        )


def computed_dtype(value: npt.ArrayLike, what: str) -> npt.DTypeLike:
    """What a plan computes a value in; refuses complex numbers."""
    dtype = np.dtype(
        value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    )
    if dtype.kind == "c":
        raise SetupError(
            f"{what} is {dtype.name}; plans compute on real numbers, integers and "
            f"booleans. Take its real and its imaginary part as two arrays."
        )
    if dtype.kind not in "biuf" and dtype.name not in _REAL:
        raise SetupError(
            f"{what} is {dtype.name}; plans compute on real numbers, integers and "
            f"booleans."
        )
    if dtype.name in _REAL:
        return np.float32
    return np.int32 if dtype.kind in "iu" else dtype
