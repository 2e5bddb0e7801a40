"""A call that is interrupted ends the parties; the next one starts them anew."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ditto.frames import Arrays, Json
from ditto.runtime import ProcessTrio, Session, ThreadTrio, Trio

from .parties import compute_forever, many_steps

PROMPT = 2.0


def send_soon(seconds: float) -> threading.Timer:
    """Ctrl-C, for this process."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def note(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """What was noted before."""
    before = session.storage.get("noted")
    session.storage["noted"] = parameters["noted"]
    return {"before": before}, {}


@pytest.mark.parametrize("make", [ThreadTrio, ProcessTrio])
def test_an_interrupted_call_leaves_a_trio_that_can_be_used(
    make: Callable[..., Trio],
) -> None:
    threads = set(threading.enumerate())
    with make(timeout=60) as trio:
        assert [r["before"] for r, _ in trio.call(note, {"noted": 1})] == [None] * 3
        assert [r["before"] for r, _ in trio.call(note, {"noted": 2})] == [1] * 3
        for starts in (1, 2, 3):
            assert trio.starts == starts
            left = list(getattr(trio, "processes", []))
            folder = trio.configs[0].tls.key.parent if left else Path("/none")
            timer = send_soon(1.0)
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                trio.outcomes(compute_forever)
            assert time.monotonic() - started < 1 + PROMPT
            timer.join()
            assert trio.interrupted
            assert all(process.poll() is not None for process in left)
            assert not folder.exists()
            replies = trio.call(many_steps, {"steps": 20})
            assert all(reply["drift"] <= 20 for reply, _ in replies)
        assert [r["before"] for r, _ in trio.call(note, {"noted": 3})] == [None] * 3
        timer = send_soon(1.0)
        with pytest.raises(KeyboardInterrupt):
            trio.outcomes(compute_forever)
        timer.join()
    started = time.monotonic()
    while set(threading.enumerate()) - threads and time.monotonic() < started + 10:
        time.sleep(0.1)
    assert set(threading.enumerate()) <= threads  # of tests before, some may have ended
