"""A signal is heeded, also when Python would drop what it raises."""

import gc
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from ditto.cli.signals import end_by_signals

SIGNALS = pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    hook = sys.unraisablehook
    end_by_signals()
    yield
    sys.unraisablehook = hook
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Node:
    """It holds itself: only the garbage collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    sum(range(1000))  # signals are heeded between two operations


@pytest.mark.fast
@SIGNALS
def test_a_signal_in_a_callback_of_the_garbage_collector_is_heeded(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    sent: list[str] = []

    def callback(phase: str, info: dict[str, int]) -> None:
        if not sent:
            sent.append(phase)
            send(number)

    with pytest.raises(raised):
        collect_with(callback)


def collect_with(callback: Callable[[str, dict[str, int]], None]) -> None:
    try:
        gc.callbacks.append(callback)
        collect_and_wait()
    finally:
        gc.callbacks.remove(callback)


def collect_and_wait() -> None:
    gc.collect()
    time.sleep(2)


@pytest.mark.fast
@SIGNALS
def test_a_signal_in_the_callback_of_a_weak_reference_is_heeded(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    node = Node()
    reference = weakref.ref(node, lambda _: send(number))
    del node
    with pytest.raises(raised):
        collect_and_wait()
    assert reference() is None


@pytest.mark.fast
def test_what_else_is_dropped_is_reported() -> None:
    reports: list[str] = []
    sys.unraisablehook = lambda unraisable: reports.append(str(unraisable.exc_value))
    end_by_signals()
    node = Node()
    reference = weakref.ref(node, lambda _: 1 // 0)
    del node
    gc.collect()
    assert reference() is None
    assert reports == ["integer division or modulo by zero"]
