"""SPU's own links do not check names: who starts the parties allows them, or nobody."""

from collections.abc import Iterator

import numpy as np
import pytest

import ditto
from ditto.bench.programs import use_bare_links
from ditto.compiler import Plan
from ditto.compiler.local import deal_arguments, opened
from ditto.engine import ProcessTrio, Session
from ditto.engine.frames import Arrays, Json
from ditto.errors import SetupError
from ditto.party import hold_plan, run

X = np.linspace(-1, 1, 12, dtype=np.float32)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return ditto.compile(lambda x: x * x, (X,), profile="puma", calibration=[(X,)])


@pytest.fixture(scope="module")
def trio() -> Iterator[ProcessTrio]:
    with ProcessTrio() as parties:
        yield parties


def ask_for_bare_links(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """What each party says when a function asks for links or runtimes of SPU's own."""
    said = []
    for ask in ("bare_link", "bare_runtimes"):
        try:
            getattr(session, ask)()
        except SetupError as error:
            said.append(str(error))
    return {"said": said}, {}


def bytes_of_a_run(trio: ProcessTrio, plan: Plan, **more: object) -> int:
    """Bytes that the three parties counted; on its own links SPU's are not counted."""
    data = np.frombuffer(plan.to_bytes(), np.uint8)
    trio.call(hold_plan, arrays=[{"plan": data}] * 3)
    asked = {"plan": plan.digest, "model": "none", **more}
    replies = trio.call(run, asked, deal_arguments(plan, (X,)))
    result = opened(plan, [arrays for _, arrays in replies])
    assert np.abs(result - X * X).max() < 1e-3
    return sum(step[0] for reply, _ in replies for step in reply["steps"])


def test_a_request_for_bare_links_has_no_effect(trio: ProcessTrio, plan: Plan) -> None:
    assert bytes_of_a_run(trio, plan, bare=True) == bytes_of_a_run(trio, plan) > 0


def test_a_party_not_started_with_them_refuses(trio: ProcessTrio, plan: Plan) -> None:
    for reply, _ in trio.call(ask_for_bare_links):
        assert len(reply["said"]) == 2
        assert all("bare_links=True" in said for said in reply["said"])
    with pytest.raises(SetupError, match="was not started with bare_links"):
        trio.call(use_bare_links, {"bare": True})


def test_parties_started_with_them_have_them(plan: Plan) -> None:
    with ProcessTrio(bare_links=True) as trio:
        counted = bytes_of_a_run(trio, plan)
        trio.call(use_bare_links, {"bare": True})
        assert bytes_of_a_run(trio, plan) == 0
        trio.call(use_bare_links, {"bare": False})
        assert bytes_of_a_run(trio, plan) == counted > 0
