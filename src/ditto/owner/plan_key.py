"""What a plan depends on, as one hash: the name under which it is kept."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

from ditto.analysis import Network
from ditto.client.tokens import Batch
from ditto.compiler import Profile
from ditto.models import Model
from ditto.models.computation import Computation
from ditto.plan import Plan
from ditto.plan.plan import VERSION
from ditto.plan.writer import canonical


def model_digest(model: Model) -> str:
    """Of the weights, the configuration, the head and what follows it."""
    digest = hashlib.blake2b(digest_size=32)  # twice as fast as SHA-256
    family = model.family.model_type
    digest.update(canonical([family, model.head.value, dict(model.published)]))
    modules = [asdict(dense) for dense in model.sentence.dense]
    digest.update(canonical([model.sentence.pooling.value, modules]))
    leaves, structure = jax.tree_util.tree_flatten(model.params)
    digest.update(str(structure).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        digest.update(canonical([array.dtype.name, list(array.shape)]))
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def plan_key(
    model: str,
    profile: Profile,
    network: Network | None,
    computation: Computation,
    samples: Iterable[Batch],
    reused: tuple[Plan, bool] | None,
) -> str:
    """The key of the plan of a computation of the model with this digest.

    ``reused`` is the plan whose shares of weights it is to take, and whether those of
    the state too: another one makes another plan.
    """
    batches = hashlib.sha256()
    for batch in samples:
        for array in (batch.ids, batch.mask, batch.types):
            batches.update(canonical(list(array.shape)) + array.tobytes())
    document = {
        "code": code_digest(),
        "plan": VERSION,
        "model": model,
        "profile": profile.model_dump(mode="json"),
        "network": None if network is None else asdict(network),
        "computation": asdict(computation),
        "samples": batches.hexdigest(),
        "reused": None if reused is None else [reused[0].digest, reused[1]],
    }
    return hashlib.sha256(canonical(document)).hexdigest()


@cache
def code_digest() -> str:
    """Of this release and its source, so that whoever works on it sees their work."""
    digest = hashlib.sha256(version("ditto-mpc").encode())
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
