"""Texts that end an answer, found in pieces as they come."""

from collections.abc import Sequence


class StopScanner:
    """Passes a text on, but for what may be the beginning of a stop."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """What can be shown after one more piece, and whether a stop was reached.

        The stop itself is not shown, nor what follows it.
        """
        whole = self._held + text
        places = [at for stop in self._stops if (at := whole.find(stop)) >= 0]
        if places:
            self._held = ""
            return whole[: min(places)], True
        held = max((_overlap(whole, stop) for stop in self._stops), default=0)
        shown = len(whole) - held
        self._held = whole[shown:]
        return whole[:shown], False

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The most letters at the end of a text that a stop begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
