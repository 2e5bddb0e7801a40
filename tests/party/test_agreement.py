"""Three parties that were not given the same: no answer, no state, an error."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ditto
from ditto.client import open_outputs, share_arguments
from ditto.errors import DisagreementError, DittoError, PeerError
from ditto.fixedpoint import FxpType
from ditto.frames import Arrays
from ditto.owner import Publisher, signature_of
from ditto.party import LocalDeployment, running, store_of
from ditto.party.comparison import share_digests
from ditto.plan import Plan
from ditto.runtime import ThreadTrio
from ditto.sharing import Shared
from ditto.wire import PutPlan, PutWeights, RegisterModel, RunPlan, RunReply, Turn
from tests.compiler.cases import PIECES

from .test_refusals import W, X, call, compiled, first, further, outcomes, shares

rng = np.random.default_rng(1)
IDS = np.array([3, 1, 4], np.int32)
TABLE = rng.normal(size=(16, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return compiled(X)


@pytest.fixture(scope="module")
def embedding() -> Plan:
    """Takes secret indices, a secret factor and a public summand."""

    def embed(table: Any, ids: Any, factor: Any, summand: Any) -> Any:
        return jnp.tanh(table[ids] * factor) + summand

    arguments = (TABLE, IDS, np.ones(4, np.float32), np.ones(4, np.int32))
    return ditto.compile(
        embed,
        arguments,
        calibration=[arguments],
        weight_argnums=(0,),
        public_argnums=(3,),
    )


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=20.0) as parties:
        yield parties


def publish(trio: ThreadTrio, weight: Any, *plans: Plan) -> None:
    owner = Publisher(LocalDeployment(trio), "m", "owner", [weight])
    for plan in plans:
        owner.publish(plan)


def disagreeing(said: Sequence[Any]) -> set[int]:
    """The parties that noticed; nobody else but the third may have answered."""
    noticed = {k for k, one in enumerate(said) if isinstance(one, DisagreementError)}
    for k, one in enumerate(said):
        assert k in noticed or isinstance(one, PeerError | RunReply), said
    assert sum(isinstance(one, RunReply) for one in said) <= 1
    return noticed


def changed(arrays: Arrays, name: str) -> Arrays:
    """With one bit of one array another."""
    other = arrays[name].copy()
    other.reshape(-1).view(np.uint8)[0] ^= 1
    return {**arrays, name: other}


def embedding_runs(plan: Plan) -> list[RunPlan]:
    values = [TABLE, IDS, np.ones(4, np.float32), np.ones(4, np.int32)]
    dealt = share_arguments(signature_of(plan), values)
    weights = {f"{side}{v}" for v in plan.inputs[0].encodings for side in WHICH}
    return [
        RunPlan(
            "m",
            plan.digest,
            None,
            {name: a for name, a in arrays.items() if name not in weights},
        )
        for arrays in dealt
    ]


WHICH = ("first", "second")


def test_inputs_of_every_kind_are_compared(trio: ThreadTrio, embedding: Plan) -> None:
    """Each array of each party, one bit at a time; what only one holds may differ."""
    publish(trio, TABLE, embedding)
    good = embedding_runs(embedding)
    replies = call(trio, good)
    answer = open_outputs(signature_of(embedding), [r.arrays for r in replies])
    assert np.abs(answer - np.tanh(TABLE[IDS]) - 1).max() < PIECES
    kinds = set()
    for rank, run in enumerate(good):
        for name in run.arrays:
            if name.startswith("keys") and rank == 0:
                continue  # P0 holds its side of the split alone
            runs = list(embedding_runs(embedding))
            arrays = changed(runs[rank].arrays, name)
            if name.startswith("keys"):
                keys = runs[rank].arrays[name].copy()
                keys[0, -1, -1] ^= 1  # of the layer that P1 and P2 have in common
                arrays = {**runs[rank].arrays, name: keys}
            runs[rank] = replace(runs[rank], arrays=arrays)
            noticed = disagreeing(outcomes(trio, runs))
            assert noticed, (rank, name)
            kinds.add(name.rstrip("0123456789"))
            trio.reconnect()
    assert kinds == {"keys", "first", "second", "public"}
    call(trio, embedding_runs(embedding))  # in a new session all is well


def test_weights_that_were_dealt_differently_are_noticed(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    begin, _ = plans
    call(trio, [RegisterModel("m", "owner", (begin.digest,))] * 3)
    call(trio, [PutPlan("m", begin.to_bytes())] * 3)
    numbers = begin.inputs[0].encodings
    dealt = shares(begin, 0, W)
    dealt[1] = changed(dealt[1], f"first{numbers[0]}")  # P0 has it as its second
    call(trio, [PutWeights("m", begin.digest, numbers, a) for a in dealt])
    runs = [RunPlan("m", begin.digest, Turn("s"), a) for a in shares(begin, 1, X)]
    said = outcomes(trio, runs)
    assert disagreeing(said) == {0, 1}
    for session in trio.sessions[:2]:
        assert store_of(session).conversations() == {}


def test_a_state_that_is_not_the_same_is_noticed(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    """And the state from before is still there: with it the run works."""
    begin, go_on = plans
    publish(trio, W, *plans)
    call(trio, [RunPlan("m", begin.digest, Turn("s"), a) for a in shares(begin, 1, X)])
    store: Any = store_of(trio.sessions[2])
    kept = store._conversations["s"]
    (state,) = kept.state.shares
    other = Shared(state.first, state.second ^ np.uint32(1), state.type)
    broken = replace(kept, state=replace(kept.state, shares=(other,)))

    def ask() -> list[Any]:
        dealt = shares(go_on, 1, -X)
        return [RunPlan("m", go_on.digest, Turn("s", 1), a) for a in dealt]

    store._conversations["s"] = broken
    assert disagreeing(outcomes(trio, ask())) == {0, 2}
    trio.reconnect()
    store._conversations["s"] = kept
    replies = call(trio, ask())
    answer = open_outputs(signature_of(go_on), [r.arrays for r in replies])[0]
    expected = further(W, -X, first(W, X)[1])[0]
    assert np.abs(answer - expected).max() < 0.02


def test_turns_and_models_are_compared(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    """One party is asked to begin another conversation, or with another model."""
    begin, _ = plans
    publish(trio, W, begin)
    other = Publisher(LocalDeployment(trio), "other", "owner", [W])
    other.publish(begin)
    for change in ({"turn": Turn("t")}, {"model": "other"}):
        for odd in range(3):
            dealt = shares(begin, 1, X)
            turn = Turn(f"{odd} {len(change)} {change}")
            runs = [RunPlan("m", begin.digest, turn, a) for a in dealt]
            runs[odd] = replace(runs[odd], **change)
            assert odd in disagreeing(outcomes(trio, runs))
            trio.reconnect()


def test_parties_told_different_plans_give_nothing_away(trio: ThreadTrio) -> None:
    """One is told to open the weights, two to open the input: three such runs gave all
    of the weights to a client once."""
    x = np.zeros_like(W)
    samples = [(W, rng.normal(size=W.shape).astype(np.float32)) for _ in range(4)]
    a = ditto.compile(
        lambda w, x: (w,), (W, x), calibration=samples, weight_argnums=(0,)
    )
    b = ditto.compile(
        lambda w, x: (x,),
        (W, x),
        calibration=samples,
        weight_argnums=(0,),
        reuse_shares_of=a,
    )
    publish(trio, W, a, b)
    (v,) = a.inputs[0].encodings
    kind = a.values[v].fxp
    for odd in range(3):
        weight = store_of(trio.sessions[odd]).weight(("m", a.inputs[0].name, kind))
        assert weight is not None
        plans = [a if rank == odd else b for rank in range(3)]
        zeros = {
            f"{side}{v}": np.zeros(W.shape, plan.values[v].fxp.ring.dtype)
            for plan in (a, b)
            for v in plan.inputs[1].encodings
            for side in WHICH
        }
        runs = [RunPlan("m", plan.digest, None, zeros) for plan in plans]
        said = outcomes(trio, runs)
        assert odd in disagreeing(said)
        assert not any(isinstance(one, RunReply) for one in said)
        with pytest.raises(DittoError):
            LocalDeployment(trio).call(runs)
        trio.reconnect()


def test_masks_of_different_plans_are_noise_even_unnoticed(
    trio: ThreadTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the comparison: what the client is sent is no share of a weight."""
    monkeypatch.setattr(running.Comparison, "check", lambda _, told: None)
    x = np.zeros_like(W)
    samples = [(W, rng.normal(size=W.shape).astype(np.float32)) for _ in range(4)]
    a, b = (
        ditto.compile(f, (W, x), calibration=samples, weight_argnums=(0,))
        for f in (lambda w, x: (w,), lambda w, x: (x,))
    )
    publish(trio, W, a, b)
    (v,) = a.inputs[0].encodings
    held = store_of(trio.sessions[0]).weight(("m", a.inputs[0].name, a.values[v].fxp))
    assert held is not None
    zeros = {
        f"{side}{v}": np.zeros(W.shape, np.uint32)
        for plan in (a, b)
        for v in plan.inputs[1].encodings
        for side in WHICH
    }
    digests = [a.digest, b.digest, b.digest]
    replies = call(trio, [RunPlan("m", digest, None, zeros) for digest in digests])
    total = sum(reply.arrays["0"].astype(np.uint32) for reply in replies)
    assert not np.any(total == held[0].first)
    with pytest.raises(DittoError, match="P0 and P1 disagree"):
        open_outputs(signature_of(a), [reply.arrays for reply in replies])


def test_the_error_tells_no_values(trio: ThreadTrio, embedding: Plan) -> None:
    publish(trio, TABLE, embedding)
    runs = embedding_runs(embedding)
    v = embedding.inputs[2].encodings[0]
    runs[1] = replace(runs[1], arrays=changed(runs[1].arrays, f"first{v}"))
    said = outcomes(trio, runs)
    (error,) = {str(one) for one in said[:1]}
    assert "This party and bob do not hold the same" in error
    assert said[0].public_message() == f"disagreement: {DisagreementError.public}"


def test_the_comparison_costs_no_step_anything(
    trio: ThreadTrio, plans: tuple[Plan, Plan]
) -> None:
    begin, _ = plans
    publish(trio, W, begin)
    dealt = share_arguments(signature_of(begin), [W, X])
    measured = ditto.run_local(begin, (W, X), trio=trio)  # without a comparison
    replies = call(
        trio, [RunPlan("m", begin.digest, Turn("s"), arrays) for arrays in dealt]
    )
    for k, step in enumerate(measured.steps):
        assert sum(reply.steps[k][0] for reply in replies) == step.bytes
        assert max(reply.steps[k][1] for reply in replies) == step.rounds


def test_digests_of_shares_tell_their_sides_apart() -> None:
    one, two = np.arange(4, dtype=np.uint32), np.arange(4, 8, dtype=np.uint32)
    shared = Shared(one, two, FxpType(32, 0))
    turned = Shared(two, one, shared.type)
    assert share_digests(shared) == share_digests(turned)[::-1]
    assert len(set(share_digests(shared))) == 2
