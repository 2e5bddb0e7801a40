"""Ditto: private Transformer inference on secret shares.

``ditto.from_pretrained`` takes a Hugging Face folder and answers in private.
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
    from ditto.errors import AnswerWarning
    from ditto.inference import Pretrained, from_pretrained

__version__ = version("ditto-mpc")

__all__ = [
    "LAN",
    "PROFILES",
    "WAN",
    "AnswerWarning",
    "Network",
    "Plan",
    "Pretrained",
    "Profile",
    "Simulator",
    "__version__",
    "compile",
    "from_pretrained",
    "run_local",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load the compiler or the models, and JAX with them, when first used."""
    if name == "AnswerWarning":
        from ditto.errors import AnswerWarning

        return AnswerWarning
    if name in ("Pretrained", "from_pretrained"):
        import ditto.inference

        return getattr(ditto.inference, name)
    if name in __all__:
        import ditto.compiler

        return getattr(ditto.compiler, name)
    raise AttributeError(f"module 'ditto' has no attribute {name!r}")
