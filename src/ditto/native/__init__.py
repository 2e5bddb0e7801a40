"""Kernels in C for what Python and XLA are slow at; each has a fallback.

In topological order: library; products; packing, aes, flags, galois, recast, which
other packages import as modules. The library is compiled when the package is built,
where there is a C compiler (``hatch_build.py``). ``level()`` says what runs.
"""

from ditto.native.library import Level, level
from ditto.native.products import (
    Packed,
    Packing,
    multiplies,
    multiply,
    pack,
    packing_of,
)

__all__ = [
    "Level",
    "Packed",
    "Packing",
    "level",
    "multiplies",
    "multiply",
    "pack",
    "packing_of",
]
