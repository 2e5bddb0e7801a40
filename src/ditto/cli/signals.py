"""A command that is ended by a signal ends what it started."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SOON = 0.02


def end_by_signals() -> None:
    """Ctrl-C and SIGTERM raise in the main thread, so that everything is closed.

    Python drops what is raised in a callback of its garbage collector, in a weak
    reference's callback and in `__del__`: what was dropped there is raised again a
    moment later.
    """
    last: list[int] = []
    report = sys.unraisablehook

    def heed(number: int, _: FrameType | None) -> None:
        last[:] = [number]
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    def dropped(unraisable: "sys.UnraisableHookArgs") -> None:
        if last and unraisable.exc_type in (KeyboardInterrupt, SystemExit):
            signal.setitimer(signal.ITIMER_REAL, _SOON)
        else:
            report(unraisable)

    signal.signal(signal.SIGINT, heed)
    signal.signal(signal.SIGTERM, heed)
    signal.signal(signal.SIGALRM, lambda _, frame: heed(last[0], frame))
    sys.unraisablehook = dropped


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM has come: the first asks to stop, the next one ends."""
    usual = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    asked: list[int] = []

    def heed(number: int, _: FrameType | None) -> None:
        asked.append(number)
        restore()
        said = "stopping after this step; once more ends at once, without a checkpoint"
        print(said, file=sys.stderr)  # noqa: T201

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    for number in usual:
        signal.signal(number, heed)
    try:
        yield lambda: bool(asked)
    finally:
        restore()
