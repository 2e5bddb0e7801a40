"""Ditto: private Transformer inference on secret shares.

``ditto.from_pretrained`` takes a Hugging Face folder and answers in private.
``ditto.compile`` turns a JAX function into a plan, ``ditto.run_local`` runs a plan with
three parties on this machine, ``ditto.simulate`` runs it on plain integers.
``ditto.Client`` asks the models of a deployment of three organisations.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ditto.analysis import (
        LAN,
        WAN,
        Estimate,
        Machine,
        Network,
        draw,
        estimate,
        explain,
        tune_rounds,
    )
    from ditto.api import Pretrained, from_pretrained
    from ditto.api.local import Run, run_local
    from ditto.client.remote_client import AsyncClient, Client
    from ditto.compiler import (
        PROFILES,
        Profile,
        compile,  # noqa: A004
    )
    from ditto.errors import AnswerWarning, TextCutWarning
    from ditto.plan import Plan
    from ditto.simulation import Headroom, Simulated, Simulator, as_function, simulate
    from ditto.steps import load_plan

__version__: str

__all__ = [
    "LAN",
    "PROFILES",
    "WAN",
    "AnswerWarning",
    "AsyncClient",
    "Client",
    "Estimate",
    "Headroom",
    "Machine",
    "Network",
    "Plan",
    "Pretrained",
    "Profile",
    "Run",
    "Simulated",
    "Simulator",
    "TextCutWarning",
    "__version__",
    "as_function",
    "compile",
    "draw",
    "estimate",
    "explain",
    "from_pretrained",
    "load_plan",
    "run_local",
    "simulate",
    "tune_rounds",
]

_HOMES = {
    "ditto.analysis": (
        "LAN",
        "WAN",
        "Estimate",
        "Machine",
        "Network",
        "draw",
        "estimate",
        "explain",
        "tune_rounds",
    ),
    "ditto.client.remote_client": ("AsyncClient", "Client"),
    "ditto.compiler": ("PROFILES", "Profile", "compile"),
    "ditto.api.local": ("Run", "run_local"),
    "ditto.errors": ("AnswerWarning", "TextCutWarning"),
    "ditto.api": ("Pretrained", "from_pretrained"),
    "ditto.plan": ("Plan",),
    "ditto.simulation": (
        "Headroom",
        "Simulated",
        "Simulator",
        "as_function",
        "simulate",
    ),
    "ditto.steps": ("load_plan",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    """What there is to use, for completion."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Load what is asked for, and JAX with it, when first used."""
    if name == "__version__":
        return import_module("importlib.metadata").version("ditto-mpc")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ditto' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        from ditto.extras import explained

        raise explained(error) from None
