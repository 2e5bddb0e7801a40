"""Plans as files: the same everywhere, and nothing but an intact one is read."""

import copy
import json
import os
import random
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ditto.api.local import run_local
from ditto.compiler import compile
from ditto.errors import DittoError, PlanError
from ditto.plan import Plan
from ditto.steps import load_plan, plan_from_body, plan_from_bytes
from tests.compiler.cases import PIECES

MAKE = """
import numpy as np, jax
import ditto
from tests.plan.test_files import small_plan
print(small_plan().digest)
"""


def small_plan() -> Plan:
    def function(p: dict[str, Any], ids: jax.Array, mask: jax.Array) -> Any:
        with jax.named_scope("attention"):
            x = p["table"][ids]
            s = jnp.where(mask[None, :], x @ x.T, -1e9)
            mixed = jax.nn.softmax(s, -1) @ x
        with jax.named_scope("head"):
            return {"y": jax.nn.gelu(mixed @ p["w"]), "best": (mixed > 0, ids + 1)}

    rng = np.random.default_rng(0)
    p = {
        "table": rng.normal(size=(7, 4)).astype(np.float32),
        "w": rng.normal(size=(4, 3)).astype(np.float32),
    }
    arguments = (p, np.array([1, 2, 6], np.int32), np.array([True, True, False]))
    return compile(
        function,
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        public_argnums=(2,),
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan()


def test_round_trip(plan: Plan) -> None:
    again = plan_from_bytes(plan.to_bytes())
    assert again.to_bytes() == plan.to_bytes()
    assert again.digest == plan.digest
    assert again.result == plan.result


def test_a_plan_that_was_read_computes_the_same(plan: Plan) -> None:
    rng = np.random.default_rng(0)
    p = {
        "table": rng.normal(size=(7, 4)).astype(np.float32),
        "w": rng.normal(size=(4, 3)).astype(np.float32),
    }
    arguments = (p, np.array([1, 2, 6], np.int32), np.array([True, True, False]))
    results = [
        run_local(each, arguments).result
        for each in (plan, plan_from_bytes(plan.to_bytes()))
    ]
    assert np.abs(results[0]["y"] - results[1]["y"]).max() < 2 * PIECES
    assert np.array_equal(results[0]["best"][1], [2, 3, 7])
    assert results[0]["best"][0].dtype == np.int32


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_the_digest_is_the_same_in_every_process(plan: Plan, seed: str) -> None:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    out = subprocess.run(
        [sys.executable, "-c", MAKE],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == plan.digest


def test_every_flipped_byte_is_refused(plan: Plan) -> None:
    data = plan.to_bytes()
    rng = random.Random(5)
    for position in [*range(90), *rng.sample(range(len(data)), 400)]:
        broken = bytearray(data)
        broken[position] ^= 1 << rng.randrange(8)
        with pytest.raises(PlanError):
            plan_from_bytes(bytes(broken))


def test_another_version_is_refused(plan: Plan) -> None:
    document = json.loads(plan.body)
    document["version"] = 1
    with pytest.raises(PlanError, match=r"version '1'; this release reads version 6"):
        plan_from_body(json.dumps(document).encode())


def test_a_file_that_is_no_plan_is_refused_in_a_sentence(tmp_path: Any) -> None:
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(PlanError, match="not a plan"):
        load_plan(tmp_path / "x")
    with pytest.raises(PlanError, match="cannot be read"):
        load_plan(tmp_path / "absent")


def test_60000_fuzzed_files_crash_nothing(plan: Plan) -> None:
    """Bytes changed, cut, doubled: the digest stands before everything else."""
    data, rng = plan.to_bytes(), random.Random(1)
    for _ in range(60_000):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(broken) + 1)
            match rng.randrange(4):
                case 0:
                    broken[place : place + 1] = bytes([rng.randrange(256)])
                case 1:
                    del broken[place : place + rng.randrange(64)]
                case 2:
                    broken[place:place] = rng.randbytes(rng.randrange(16))
                case 3:
                    broken[place:place] = broken[: rng.randrange(32)]
        if bytes(broken) == data:
            continue
        with pytest.raises(PlanError):
            plan_from_bytes(bytes(broken))


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 31, 32, 33, 64, 65, 2**31, -(2**40), 2**70,
    0.5, 1e308, "", "shared", "public", "bits", "add", "region", "einsum", "recast",
    "float32", "int32", "bool", "ab,bc->ac", "a,a->", "paper", "../../etc", "\x00",
    [], [[]], [0], [1, 2, 3], [-1], {}, {"dtype": "float32"}, {"dtype": "object"},
    {"enum": "Precision", "name": "HIGHEST"}, {"record": "GatherDimensionNumbers",
    "fields": {}}, {"float": "nan"}, {"tuple": [0]}, {"op": "reshape", "with": {}},
)  # fmt: skip


def mutate(document: Any, rng: random.Random) -> None:
    """Change one thing, anywhere."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.85:
            place = inner
            continue
        match rng.randrange(4):
            case 0 | 1:
                place[key] = copy.deepcopy(rng.choice(VALUES))
            case 2 if isinstance(inner, int) and not isinstance(inner, bool):
                place[key] = inner + rng.choice((-1, 1, 8, -8))
            case 2:
                del place[key]
            case 3 if isinstance(place, list):
                place.append(copy.deepcopy(inner))
        return


@pytest.mark.parametrize("seed", ["first", *range(39)])
def test_1000_fuzzed_documents_crash_nothing(plan: Plan, seed: int | str) -> None:
    """As if an enemy had computed the digest: whatever is read keeps every rule."""
    body, rng, accepted = plan.body, random.Random(seed), 0
    for _ in range(1000):
        document = json.loads(body)
        for _ in range(rng.randint(1, 3)):
            mutate(document, rng)
        try:
            read = plan_from_body(json.dumps(document).encode())
        except PlanError:
            continue
        accepted += 1
        assert plan_from_bytes(read.to_bytes()).digest == read.digest
    assert 0 < accepted < 500  # some changes are harmless, most are not


def test_deep_and_huge_documents_are_refused() -> None:
    for text in (
        b"[" * 100_000,
        b'{"version":1}',
        b"null",
        b'"x"',
        b"1e999",
        b"\xff",
        b"NaN",
    ):
        with pytest.raises(PlanError):
            plan_from_body(text)


def test_a_constant_of_a_billion_elements_is_refused(plan: Plan) -> None:
    """It would be small as a file: equal elements are written once."""
    document = json.loads(plan.body)
    document["constants"][0] = ["float32", [1 << 30], "AAAAAA=="]
    with pytest.raises(PlanError, match="at most"):
        plan_from_body(json.dumps(document).encode())


def test_a_region_that_nothing_runs_is_refused(plan: Plan) -> None:
    document = json.loads(plan.body)
    document["regions"].append(document["regions"][0])
    with pytest.raises(PlanError, match="never run"):
        plan_from_body(json.dumps(document).encode())


def test_what_breaks_a_rule_is_told_with_its_step(plan: Plan) -> None:
    document = json.loads(plan.body)
    index = next(i for i, s in enumerate(document["steps"]) if s[0] == "einsum")
    document["steps"][index][3]["rounds"] = 4
    with pytest.raises(DittoError, match=rf"Step {index} \(einsum.*1 to 3 rounds"):
        plan_from_body(json.dumps(document).encode())
