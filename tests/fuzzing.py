"""How many damaged inputs a parser gets."""

import os


def inputs(short: int) -> int:
    """So many in CI; ``DITTO_FUZZ=1000000 pytest -k damaged`` gives each a million."""
    return int(os.environ.get("DITTO_FUZZ", short))
