"""A model of two small plans, the second of which continues the first's state."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import ditto
from ditto.client.bundle import Offer
from ditto.compiler import PROFILES
from ditto.models import Head
from ditto.owner import Description, Exported, export_bundle
from ditto.plan import Plan

rng = np.random.default_rng(0)
W = rng.normal(size=(6, 6)).astype(np.float32)
X = rng.normal(size=(4, 6)).astype(np.float32)


def first(w: Any, x: Any) -> Any:
    y = x @ w
    return y.sum(-1), y


def further(w: Any, x: Any, y: Any) -> Any:
    y = jnp.where(np.arange(len(x))[:, None] < 2, x @ w, y)
    return y.sum(-1), y


def compiled(*, provable: bool = False) -> tuple[Plan, Plan]:
    profile = PROFILES["ditto"].replace(provable=provable)
    begin = ditto.compile(
        first,
        (W, X),
        calibration=[(W, X)],
        weight_argnums=(0,),
        retain_outputs=(1,),
        profile=profile,
    )
    arguments = (W, X, np.asarray(first(W, X)[1]))
    go_on = ditto.compile(
        further,
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        state_argnums=(2,),
        retain_outputs=(1,),
        reuse_shares_of=begin,
        profile=profile,
    )
    return begin, go_on


def export_toy(
    out: Path, plans: tuple[Plan, Plan], name: str, owner: str, tokenizer: Path
) -> Path:
    """A bundle of the two plans; ``tokenizer`` is a folder with a tokenizer's files."""
    description = Description(name, owner, Head.TEXT_GENERATION, 8, {})
    offers = [Offer("prefill", 1, 8), Offer("decode", 1, 8)]
    exported = [
        Exported(offer, plan) for offer, plan in zip(offers, plans, strict=True)
    ]
    export_bundle(out, description, exported, [W], tokenizer)
    return out
