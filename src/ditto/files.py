"""Files from outside: read whole, up to a limit."""

from collections.abc import Callable
from pathlib import Path

from ditto.errors import DittoError


def read_limited(
    path: Path, limit: int, raising: Callable[[str], DittoError], too_large: str
) -> bytes:
    """The bytes of a file; raises if it cannot be read or is ``too_large``."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise raising(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > limit:
        raise raising(f"{path} is larger than {too_large}.")
    return content
