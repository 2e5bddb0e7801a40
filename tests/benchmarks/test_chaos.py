"""The short form of soak and chaos: every answer is right, nothing hangs."""

from benchmarks.chaos import break_party
from benchmarks.deployment import open_parties, publish_models
from benchmarks.load import Load

TIMEOUT = 90.0


def test_a_party_is_killed_and_cut_off_under_load() -> None:
    with open_parties() as parties:
        questions = publish_models(parties, lengths=[16], tokens=0)
        load = Load(parties, questions, 2, TIMEOUT)
        load.start()
        recoveries = {}
        for kind, rank in (("kill", 1), ("cut", 2)):
            break_party(parties, kind, rank, 1.0)
            recoveries[kind] = load.probe(TIMEOUT)
        load.stop()
        load.wait()
        memory, files = parties.usage()
    print(recoveries, load.outcome)  # noqa: T201
    outcome = load.outcome
    assert (outcome.wrong, outcome.hangs, outcome.failed) == (0, 0, 0), outcome
    assert outcome.completed >= 3
    assert memory > 0
    assert files > 0
