"""Two trios become the next version one after the other, then one of them is killed:
clients notice nothing."""

import os
import signal
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import ditto
from benchmarks.load import Load
from benchmarks.parties import Parties
from benchmarks.questions import Question, publish_models
from benchmarks.trios import ask_and_kill
from ditto.wire.manifest import VERSION

NEXT = "0.1.0"
TIMEOUT = 90.0


def next_version(folder: Path) -> dict[str, str]:
    """The environment of a process for which this is the next version of Ditto."""
    information = folder / f"ditto_mpc-{NEXT}.dist-info"
    information.mkdir(parents=True)
    metadata = distribution("ditto-mpc").read_text("METADATA") or ""
    changed = metadata.replace(f"\nVersion: {VERSION}\n", f"\nVersion: {NEXT}\n", 1)
    (information / "METADATA").write_text(changed)
    before = os.environ.get("PYTHONPATH")
    path = [str(folder), *([before] if before else [])]
    return {"PYTHONPATH": os.pathsep.join(path)}


def test_a_rolling_upgrade_fails_no_request(tmp_path: Path) -> None:
    assert VERSION != NEXT
    environment = next_version(tmp_path / "next")
    (tmp_path / "deployment").mkdir()
    parties = Parties(tmp_path / "deployment", trios=2, last_version=NEXT)
    try:
        for trio in range(2):
            parties.start(trio)
        for trio in range(2):
            assert parties.wait_until_ready(trio) == [VERSION] * 3
        questions = publish_models(parties, lengths=[16], tokens=6)
        alice = parties.member("client", "alice")
        cache = tmp_path / "cache"
        with ditto.Client(parties.deployment, alice, cache=cache) as client:
            load = Load([client], questions, TIMEOUT, threads=4)
            load.start()
            load.wait_for(8, TIMEOUT)
            for trio in range(2):
                parties.send(signal.SIGTERM, trio)
                assert parties.wait_until_ended(trio, 70) == [0, 0, 0]
                load.wait_for(4, TIMEOUT)  # by the other trio alone
                parties.start(trio, environment=environment)
                assert parties.wait_until_ready(trio) == [NEXT] * 3
                load.wait_for(8, TIMEOUT)
            outcome = load.finish()
        print(outcome)  # noqa: T201
        assert (outcome.failed, outcome.wrong, outcome.hangs) == (0, 0, 0), outcome
        assert outcome.completed >= 8 + 2 * (4 + 8)
        for trio in range(2):
            first, again = _finished(parties.logs(trio))
            assert first > 0
            assert again > 0, "an upgraded trio answered nothing"
        _one_is_killed(parties, questions)
    finally:
        parties.stop()


def _one_is_killed(parties: Parties, questions: Sequence[Question]) -> None:
    """What ``benchmarks.trios`` does, with few questions."""
    result = ask_and_kill(parties, questions, requests=2, threads=2, repeats=1)
    print(result)  # noqa: T201
    assert [part["trios"] for part in result["parts"]] == [1, 2]
    assert all(part["throughput"] > 0 for part in result["parts"])
    assert (result["failed"], result["wrong"]) == (0, 0), result["errors"]
    assert result["one_trio_killed"]["completed"] >= 6


def _finished(log: str) -> tuple[int, int]:
    """Runs that the parties have finished as each version."""
    counts = {VERSION: 0, NEXT: 0}
    version = VERSION
    for line in log.splitlines():
        if '"event": "started"' in line:
            version = NEXT if f'"version": "{NEXT}"' in line else VERSION
        counts[version] += '"event": "run finished"' in line
    return counts[VERSION], counts[NEXT]
