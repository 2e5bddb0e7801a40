"""What a leak is that a test plants."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Leak:
    """What is replaced in one file, why that leaks, and which tests must fail."""

    name: str
    file: str
    """Below ``src/ditto``."""
    changes: tuple[tuple[str, str], ...]
    """(text, what it is replaced by); each text is in the file exactly once."""
    because: str
    killed_by: tuple[str, ...]
    """Tests below ``tests``, as small as can be."""
