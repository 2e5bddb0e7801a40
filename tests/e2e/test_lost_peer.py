"""A peer that dies or stalls is reported by name, by both others, in time."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ditto.errors import FixedPointRangeError, PeerLostError, PeerStalledError
from ditto.runtime import NAMES, ProcessTrio

from .parties import compute_forever, fail_alone, stall

TIMEOUT = 6.0
KILLS = 20


def reports_after(number: signal.Signals, victim: int, delay: float) -> list[tuple]:
    """(error, seconds after the signal) of the two survivors."""
    with ProcessTrio(timeout=TIMEOUT) as trio:
        sent_at = []

        def strike() -> None:
            os.kill(trio.processes[victim].pid, number)
            sent_at.append(time.monotonic())

        timer = threading.Timer(delay, strike)
        timer.start()
        reports: list[tuple] = []

        def note(rank: int, outcome: object) -> None:
            if rank != victim:
                reports.append((outcome, time.monotonic() - sent_at[0]))
            if len(reports) == 2:
                trio.processes[victim].kill()  # it may be stopped only

        trio.outcomes(compute_forever, on_outcome=note)
        timer.join()
        return reports


def test_sigkill_at_random_moments() -> None:
    rng = random.Random()
    strikes = [(rng.randrange(3), rng.uniform(0.05, 2.5)) for _ in range(KILLS)]
    with ThreadPoolExecutor(2) as pool:  # two trios at a time: most of it is waiting
        jobs = [
            (victim, delay, pool.submit(reports_after, signal.SIGKILL, victim, delay))
            for victim, delay in strikes
        ]
        for victim, delay, job in jobs:
            reports = job.result()
            told = f"{NAMES[victim]} killed after {delay:.3f} s: {reports}"
            assert len(reports) == 2, told
            for error, seconds in reports:
                assert isinstance(error, PeerLostError), told
                assert error.peer == NAMES[victim], told
                assert seconds <= TIMEOUT / 4, told


def test_a_stopped_process_is_reported_by_its_silence() -> None:
    reports = reports_after(signal.SIGSTOP, victim=1, delay=0.5)
    assert len(reports) == 2
    for error, seconds in reports:
        assert isinstance(error, PeerLostError), error
        assert error.peer == NAMES[1]
        assert TIMEOUT / 4 < seconds <= TIMEOUT


@pytest.mark.parametrize("sleeper", [0, 1, 2])
def test_a_live_peer_that_does_not_answer(sleeper: int) -> None:
    with ProcessTrio(timeout=TIMEOUT) as trio:
        parameters = {"sleeper": sleeper, "seconds": 1.5 * TIMEOUT}
        outcomes = trio.outcomes(stall, parameters)
    others = [outcome for rank, outcome in enumerate(outcomes) if rank != sleeper]
    blamed = [o for o in others if isinstance(o, PeerStalledError)]
    # Who does not depend on the sleeper's next message may finish without it.
    assert blamed
    assert {error.peer for error in blamed} == {NAMES[sleeper]}


def test_a_party_that_fails_ends_the_session_at_once() -> None:
    seconds: dict[int, float] = {}
    with ProcessTrio(timeout=TIMEOUT) as trio:
        started = time.monotonic()

        def note(rank: int, _: object) -> None:
            seconds[rank] = time.monotonic() - started

        outcomes = trio.outcomes(fail_alone, {"failing": 2}, on_outcome=note)
    assert isinstance(outcomes[2], FixedPointRangeError)
    for rank in (0, 1):
        assert isinstance(outcomes[rank], PeerStalledError)
        assert outcomes[rank].peer == NAMES[2]
        assert "its own" in str(outcomes[rank])
        assert "inf" not in str(outcomes[rank])
        assert seconds[rank] < TIMEOUT / 4
