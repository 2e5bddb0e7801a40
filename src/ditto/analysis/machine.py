"""How fast a party's machine is: what its processor needs for what a plan counts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ditto.errors import SetupError
from ditto.files import read_limited

_NO_MACHINE = (
    "{0} has no machine: {1} is {2!r}, not a number of seconds. Write one with `ditto "
    "bench machine --json FILE`."
)
_LONGEST = 1e3
"""Seconds: more than anything that is counted takes."""
_LARGEST = 1 << 16
"""Bytes of a file that holds a machine."""


@dataclass(frozen=True)
class Machine:
    """Seconds of a party's processor. The defaults are of two cores of the machine that
    they were first measured on; ``ditto bench machine`` measures others."""

    multiplication: float = 1 / 8e9
    """Of integers of 32 bits inside a contraction."""
    byte_read: float = 1 / 8e9
    """Of its weights that a party reads."""
    byte_sent: float = 1 / 600e6
    """Of our steps, all parties together: what is computed around it."""
    spu_byte_sent: float = 1 / 60e6
    """Of SPU's, all parties together."""
    round: float = 1.3e-3
    """In Python and TLS, whatever is sent in it."""

    @classmethod
    def read(cls, file: Path) -> "Machine":
        """What ``ditto bench machine --json`` has written."""
        text = read_limited(file, _LARGEST, SetupError, f"{_LARGEST} bytes")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SetupError(f"{file} cannot be read as a machine: {error}.") from None
        rates = document.get("machine") if isinstance(document, dict) else None
        return cls.of(rates if isinstance(rates, dict) else {}, str(file))

    @classmethod
    def of(cls, rates: Mapping[str, Any], source: str) -> "Machine":
        """The fields as numbers; raises SetupError if one is missing or is no time."""
        found: dict[str, float] = {}
        for name in (each.name for each in fields(cls)):
            match rates.get(name):
                case bool() as value:
                    raise SetupError(_NO_MACHINE.format(source, name, value))
                case int() | float() as seconds if 0 <= seconds < _LONGEST:
                    found[name] = float(seconds)
                case value:
                    raise SetupError(_NO_MACHINE.format(source, name, value))
        return cls(**found)

    def as_json(self) -> dict[str, float]:
        """The fields."""
        return asdict(self)


USUAL = Machine()
"""What estimates are for, unless a machine is named."""
