"""A command that is ended by a signal ends what it started."""

import signal
import sys
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
