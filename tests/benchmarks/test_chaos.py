"""The short form of soak and chaos: every answer is right, nothing hangs."""

import ditto
from benchmarks.chaos import break_party
from benchmarks.load import Load
from benchmarks.network import find_network
from benchmarks.parties import open_parties
from benchmarks.questions import publish_models

TIMEOUT = 90.0


def test_a_party_is_killed_stopped_and_cut_off_under_load() -> None:
    with open_parties(find_network("lan")) as parties:
        assert parties.hosts is not None
        cuts = [("cut", 2)] if parties.hosts.measured.backend != "loopback" else []
        questions = publish_models(parties, lengths=[16], tokens=0)
        alice, bob, probe = (
            ditto.Client(parties.deployment, parties.member("client", name))
            for name in ("alice", "bob", "probe")
        )
        load = Load([alice, bob], questions, TIMEOUT)
        load.start()
        recoveries = {}
        for kind, rank in (("kill", 1), ("stop", 0), *cuts):
            break_party(parties, kind, rank, 1.0)
            recoveries[kind] = load.ask(probe, questions[0])
        outcome = load.finish()
        memory, files = parties.usage()
        for client in (alice, bob, probe):
            client.close()
    print(recoveries, outcome)  # noqa: T201
    assert (outcome.wrong, outcome.hangs, outcome.failed) == (0, 0, 0), outcome
    assert outcome.completed >= 5
    assert memory > 0
    assert files > 0
