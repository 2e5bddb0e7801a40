"""Runs of plans that are audited: the same answers, or an error and none."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.analysis import explain, predict
from ditto.api.local import run_local
from ditto.client import open_outputs, share_arguments
from ditto.errors import AuditError, RequestError, SetupError
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment
from ditto.plan import Plan
from ditto.protocols import product_cost, product_type
from ditto.runtime import NAMES, ThreadTrio
from ditto.sharing import RANKS, Rank
from ditto.steps import Einsum, Multiply, Site, plan_from_bytes
from ditto.wire import RunPlan, Turn
from ditto.wire.messages import decode_request, encode

from ..party.test_refusals import W, X, compiled
from .conftest import A, B, computed
from .parties import change_message, deviate


def whole_products(plan: Plan, i: int) -> float:
    """Bytes of a product with a recast that sends all of what it multiplied."""
    site = Site.of(plan, i)
    if not isinstance(site.step.kind, Einsum | Multiply):
        return 0
    a, b = (operand.fxp for operand in site.operands)
    source, target, kind = product_type(a, b), site.result.fxp, site.step.kind
    to = None if source == target else target
    size = site.result.size
    cost = product_cost(size, source, to, kind.rounds, checked=True, audited=True)
    return cost.bits / 8


def test_an_audited_run_answers_as_any_other(trio: ThreadTrio, plan: Plan) -> None:
    plain, audited = (
        run_local(plan, (A, B), trio=trio, audit=audit) for audit in ("off", "products")
    )
    for run in (plain, audited):
        assert np.abs(run.result - computed(A, B)).max() < 0.05
    assert [s.bytes for s in audited.steps[:-1]] == [
        whole_products(plan, i) or step.bytes for i, step in enumerate(plain.steps)
    ]
    assert [s.rounds for s in audited.steps[:-1]] == [s.rounds for s in plain.steps]
    assert len(plain.steps) == len(plan.steps)
    proofs = audited.steps[-1]
    assert proofs.kind == "audit"
    assert proofs.rounds % 2 == 1
    assert 0 < proofs.bytes < 40_000


def test_processes_prove_too(plan: Plan) -> None:
    run = run_local(plan, (A, B), processes=True, audit="products")
    assert run.steps[-1].kind == "audit"
    assert np.abs(run.result - computed(A, B)).max() < 0.05


@pytest.mark.parametrize("rank", RANKS)
def test_a_party_that_deviates_is_named_and_nothing_is_answered(
    rank: Rank, trio: ThreadTrio, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first message of its own of a product."""
    deviate(monkeypatch, rank)
    with pytest.raises(AuditError) as caught:
        run_local(plan, (A, B), trio=trio, audit="products")
    assert NAMES[rank] in caught.value.suspects
    text = caught.value.public_message()
    assert text.startswith(f"The proof of {NAMES[rank]} failed")
    assert not any(character.isdigit() for character in text)


def test_without_an_audit_it_goes_unnoticed(
    trio: ThreadTrio, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    deviate(monkeypatch, 0, bits=12)
    run = run_local(plan, (A, B), trio=trio)
    assert np.abs(run.result - computed(A, B)).max() > 0.1


def test_a_service_audits_what_it_is_asked_to(trio: ThreadTrio) -> None:
    begin, _ = compiled(X)
    deployment = LocalDeployment(trio)
    owner = Publisher(deployment, "m", "owner", [W])
    signature = owner.publish(begin)
    leaves = jax.tree_util.tree_leaves((W, X))
    dealt = share_arguments(signature_of(begin), leaves)
    inputs = [
        {k: v for k, v in arrays.items() if not _is_weight(begin, k)}
        for arrays in dealt
    ]
    for audit, number in (("off", 0), ("products", 1)):
        turn = Turn(f"conversation {number}")
        replies = deployment.call(
            [
                RunPlan("m", signature.digest, turn, arrays, f"r{number}", audit)  # type: ignore[arg-type]
                for arrays in inputs
            ]
        )
        assert open_outputs(signature, [reply.arrays for reply in replies])
        assert [reply.audit is not None for reply in replies] == [bool(number)] * 3


def _is_weight(plan: Plan, name: str) -> bool:
    values = {v for s in plan.inputs if s.role == "weight" for v in s.encodings}
    digits = "".join(c for c in name if c.isdigit())
    return digits.isdigit() and int(digits) in values


def test_a_request_without_an_audit_is_written_as_ever() -> None:
    body, arrays = encode(RunPlan("m", "digest"))
    assert "audit" not in body["fields"]
    assert decode_request(body, arrays).audit == "off"  # type: ignore[attr-defined]
    body, arrays = encode(RunPlan("m", "digest", audit="products"))
    assert decode_request(body, arrays).audit == "products"  # type: ignore[attr-defined]
    body["fields"]["audit"] = "everything"
    with pytest.raises(RequestError, match="audit"):
        decode_request(body, arrays)


def test_an_audit_that_there_is_not_is_refused(plan: Plan) -> None:
    with pytest.raises(SetupError, match="none of off, products, recasts, full"):
        run_local(plan, (A, B), audit="all")  # type: ignore[arg-type]


def test_a_run_of_products_and_recasts_is_proved_in_full(
    trio: ThreadTrio, plan: Plan
) -> None:
    run = run_local(plan, (A, B), trio=trio, audit="full")
    assert np.abs(run.result - computed(A, B)).max() < 0.05
    assert run.audit == "audit full: an audit proves the messages of all steps"
    provable = replace(plan, provable=True)
    assert run.digest == provable.digest != plan.digest
    predicted = predict(provable)
    assert [s.bytes for s in run.steps[:-1]] == [c.bytes for c in predicted]
    assert [s.rounds for s in run.steps[:-1]] == [c.rounds for c in predicted]
    assert "an audit proves the messages of all steps" in explain(provable)
    assert plan_from_bytes(provable.to_bytes()) == provable


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("at", range(9))
def test_whatever_a_party_changes_in_a_full_run_is_caught(
    rank: Rank, at: int, trio: ThreadTrio, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message of each round; it goes on with what it has sent."""
    altered = change_message(monkeypatch, rank, at)
    try:
        run_local(plan, (A, B), trio=trio, audit="full")
        caught = False
    except AuditError as error:
        caught = NAMES[rank] in error.suspects
    assert caught == bool(altered)


def square_root(x: Any) -> Any:
    """With a table function in it."""
    return jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True)) * x


def test_full_is_refused_where_it_would_be_a_part(trio: ThreadTrio) -> None:
    x = np.abs(A) + 1
    plan = ditto.compile(square_root, (x,), calibration=[(x,)])
    with pytest.raises(RequestError, match=r"nothing proves .*: 1 table_function"):
        run_local(plan, (x,), trio=trio, audit="full")
    run = run_local(plan, (x,), trio=trio, audit="recasts")
    assert np.abs(run.result - square_root(x)).max() < 0.05
    text = "audit recasts: no audit proves the messages of these steps: "
    assert run.audit == text + "1 table_function"


def test_an_audit_of_products_says_that_recasts_are_not_proved(
    trio: ThreadTrio, plan: Plan
) -> None:
    run = run_local(plan, (A, B), trio=trio, audit="products")
    assert "no audit proves the messages of these steps: " in run.audit
    assert "einsum" in run.audit


def test_a_party_refuses_what_the_plan_is_not_made_for(trio: ThreadTrio) -> None:
    begin, _ = compiled(X)
    deployment = LocalDeployment(trio)
    signature = Publisher(deployment, "m", "owner", [W]).publish(begin)
    leaves = jax.tree_util.tree_leaves((W, X))
    dealt = share_arguments(signature_of(begin), leaves)
    with pytest.raises(RequestError, match="provable recasts"):
        deployment.call(
            [
                RunPlan("m", signature.digest, Turn("c"), arrays, "r", "recasts")
                for arrays in dealt
            ]
        )
