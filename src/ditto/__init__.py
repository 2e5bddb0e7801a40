"""Ditto: private Transformer inference on secret shares.

``ditto.compile`` turns a JAX function into a plan, ``ditto.run_local`` runs a plan with
three parties on this machine, ``ditto.simulate`` runs it on plain integers.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ditto.compiler import (
        LAN,
        PROFILES,
        WAN,
        Network,
        Plan,
        Profile,
        Simulator,
        compile,  # noqa: A004
        run_local,
        simulate,
    )

__version__ = version("ditto-mpc")

__all__ = [
    "LAN",
    "PROFILES",
    "WAN",
    "Network",
    "Plan",
    "Profile",
    "Simulator",
    "__version__",
    "compile",
    "run_local",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load the compiler, and JAX with it, when it is first used."""
    if name in __all__:
        import ditto.compiler

        return getattr(ditto.compiler, name)
    raise AttributeError(f"module 'ditto' has no attribute {name!r}")
