"""A party loads its own folder of a bundle into its store."""

from pathlib import Path

from ditto.errors import DittoError, PlanError
from ditto.files import Json, read_limited
from ditto.fixedpoint import Array, FxpType
from ditto.party.mapped import map_tensors
from ditto.party.store import HeldPlan, PartyStore, WeightKey
from ditto.plan import Plan
from ditto.protocols.kernels import resident
from ditto.runtime.executor import prepare
from ditto.sharing import Rank, Shared
from ditto.steps import plan_from_bytes
from ditto.wire.manifest import Folder, read_folder

MAX_PLAN = 1 << 30


def load_bundle(store: PartyStore, path: Path, rank: Rank) -> None:
    """Check everything in the folder, then keep all of it: plans and shares."""
    folder = read_folder(path)
    contents = folder.contents
    try:
        if contents["rank"] != int(rank):
            raise PlanError(
                f"{path} is for party {contents['rank']}, this is party {int(rank)}."
            )
        model, owner = str(contents["model"]), str(contents["owner"])
        digests = [str(digest) for digest in contents["plans"]]
        continues = [(str(plan), str(left)) for plan, left in contents["continues"]]
        plans = [_read_plan(folder, digest) for digest in digests]
        weights = _read_weights(folder, model, contents["weights"])
    except DittoError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise PlanError(f"{path} is not a party's folder: {error!r}.") from None
    for plan in plans:
        _check_weights(plan, model, weights, path)
    held = [HeldPlan(plan, prepare(plan)) for plan in plans]
    store.register_model(model, owner, digests, continues)
    for each in held:
        store.put_plan(model, each)
    store.put_weights(weights)


def _read_plan(folder: Folder, digest: str) -> Plan:
    file = folder.file(f"{digest}.plan")
    plan = plan_from_bytes(read_limited(file, MAX_PLAN, PlanError, "1 GiB"))
    if plan.digest != digest:
        raise PlanError(f"{file} holds another plan than its name says.")
    return plan


def _read_weights(
    folder: Folder, model: str, entries: list[Json]
) -> dict[WeightKey, Shared]:
    tensors: dict[str, Array] = {}
    for name in folder.files:
        if name.endswith(".safetensors"):
            tensors |= map_tensors(folder.file(name))
    weights: dict[WeightKey, Shared] = {}
    for k, entry in enumerate(entries):
        kind = FxpType(int(entry["bits"]), int(entry["frac"]))
        shared = Shared(tensors[f"{k}.first"], tensors[f"{k}.second"], kind)
        weights[model, str(entry["input"]), kind] = resident(shared)
    return weights


def _check_weights(
    plan: Plan, model: str, weights: dict[WeightKey, Shared], path: Path
) -> None:
    for spec in plan.inputs:
        if spec.role != "weight":
            continue
        for v in spec.encodings:
            shared = weights.get((model, spec.name, plan.values[v].fxp))
            if shared is None or shared.shape != spec.shape:
                raise PlanError(f"{path} lacks shares of {spec.name} that a plan uses.")
