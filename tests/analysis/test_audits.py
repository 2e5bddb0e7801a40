"""What an audited run costs is known before: steps exactly, proofs at most."""

from collections.abc import Iterator

import pytest

from ditto.analysis import USUAL, estimate, predict, proofs_of, work_of
from ditto.api.backends import PartiesBackend
from ditto.client.tokens import pad_batch
from ditto.compiler import find_profile
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Audit
from ditto.runtime import ThreadTrio, auditing

TOKENS = 8
JOB = Computation(Phase.FORWARD, 1, TOKENS)


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio(timeout=60.0) as parties:
        yield parties


@pytest.fixture(scope="module", params=["products", "recasts"])
def audited(request: pytest.FixtureRequest) -> tuple[Plans, Audit]:
    model = random_model("bert-tiny", num_hidden_layers=1)
    profile = find_profile("ditto").replace(provable=request.param == "recasts")
    return Plans(model, profile, RandomSamples(64), rows=2), request.param


@pytest.mark.parametrize("part", [1 << 10, auditing.PART])
def test_an_audited_run_costs_what_was_declared(
    audited: tuple[Plans, Audit],
    part: int,
    trio: ThreadTrio,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditing, "PART", part)
    plans, audit = audited
    samples = RandomSamples(64)
    batch = pad_batch([samples.row(1000, TOKENS)], TOKENS, samples.pad_id)
    parties = PartiesBackend(plans, trio, audit=audit)
    parties.run(JOB, [batch.ids, batch.mask])
    (run,), plan = parties.runs, plans.plan(JOB)
    *steps, proofs = run.steps
    declared = predict(plan, audited=True)
    assert [step.bytes for step in steps] == [cost.bytes for cost in declared]
    assert [step.rounds for step in steps] == [cost.rounds for cost in declared]
    most = proofs_of(plan, audit)
    assert most.parts == len(auditing.part_ends(plan)) + 1
    assert (most.parts > 3) == (part < auditing.PART)
    assert most.bytes / 2 < proofs.bytes <= most.bytes
    assert most.rounds - 6 * most.parts < proofs.rounds <= most.rounds
    found = estimate(plan, audit=audit)
    assert run.bytes <= found.bytes < run.bytes + most.bytes
    assert run.rounds <= found.rounds


def test_what_is_not_audited_has_no_proofs(audited: tuple[Plans, Audit]) -> None:
    plans, audit = audited
    plan = plans.plan(JOB)
    assert proofs_of(plan, "off").bytes == 0
    off, on = estimate(plan), estimate(plan, audit=audit)
    assert off.bytes == sum(cost.bytes for cost in predict(plan))
    assert on.bytes > off.bytes
    assert on.computing > off.computing
    assert work_of(plan, audit).seconds(USUAL) == pytest.approx(on.computing)
