"""SPU's own links do not check names: who starts the parties allows them, or nobody."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ditto
from benchmarks.bare import BareTrio, bare_link, bare_runtimes, use_bare_links
from ditto.client import open_outputs, share_arguments
from ditto.errors import MessageError, SetupError
from ditto.frames import Arrays, Json
from ditto.owner import signature_of
from ditto.party import LocalDeployment, serve
from ditto.plan import Plan
from ditto.runtime import ProcessTrio, Session
from ditto.wire import PutPlan, RegisterModel, RunPlan, encode

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
    for ask in (bare_link, bare_runtimes):
        try:
            ask(session)
        except SetupError as error:
            said.append(str(error))
    return {"said": said}, {}


def bytes_of_a_run(trio: ProcessTrio, plan: Plan) -> int:
    """Bytes that the three parties counted; on its own links SPU's are not counted."""
    parties, signature = LocalDeployment(trio), signature_of(plan)
    parties.call_all(RegisterModel("none", "owner", (plan.digest,)))
    parties.call_all(PutPlan("none", plan.to_bytes()))
    dealt = share_arguments(signature, [X])
    replies = parties.call([RunPlan("none", plan.digest, None, a) for a in dealt])
    result = open_outputs(signature, [reply.arrays for reply in replies])
    assert np.abs(result - X * X).max() < 1e-3
    return sum(step[0] for reply in replies for step in reply.steps)


def test_a_request_for_bare_links_is_refused(trio: ProcessTrio, plan: Plan) -> None:
    body, _ = encode(RunPlan("none", plan.digest))
    body["fields"]["bare"] = True
    for outcome in trio.outcomes(serve, body):
        assert isinstance(outcome, MessageError)
    assert bytes_of_a_run(trio, plan) > 0


def test_a_party_not_started_with_them_refuses(trio: ProcessTrio, plan: Plan) -> None:
    for reply, _ in trio.call(ask_for_bare_links):
        assert len(reply["said"]) == 2
        assert all("start them as a BareTrio" in said for said in reply["said"])
    with pytest.raises(SetupError, match="not set up correctly"):
        trio.call(use_bare_links, {"bare": True})


def test_nothing_in_the_package_runs_regions_elsewhere() -> None:
    """It has no link of SPU's own, and nothing calls what would take one."""
    package = Path(ditto.__file__).parent
    texts = {file: file.read_text("utf-8") for file in package.rglob("*.py")}
    using = {file.name for file, text in texts.items() if "replace_runtimes" in text}
    assert using == {"session.py"}  # where it is defined
    assert not [file for file, text in texts.items() if "create_brpc" in text]


def test_parties_started_with_them_have_them(plan: Plan) -> None:
    with BareTrio() as trio:
        counted = bytes_of_a_run(trio, plan)
        trio.call(use_bare_links, {"bare": True})
        assert bytes_of_a_run(trio, plan) == 0
        trio.call(use_bare_links, {"bare": False})
        assert bytes_of_a_run(trio, plan) == counted > 0
