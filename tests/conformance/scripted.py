"""Parties in one process whose masks a test chooses and whose mail it reads."""

from collections.abc import Callable, Sequence

from ditto.fixedpoint import Ring, Words
from ditto.protocols import Party
from ditto.protocols.channel import Channel
from ditto.protocols.party import Exchange, Inbox
from ditto.sharing import KEY_BYTES, Masks, Rank, Stream

Name = tuple[str, int, str]
"""Of a mask: whose it is ("P0-P1", "P2"), the step and the purpose."""
Source = Callable[[Name, int, Ring], Words]
"""The values of a mask: (name, count, ring) -> words."""


def knows(rank: int, name: Name) -> bool:
    """Whether a party can draw a mask."""
    return f"P{rank:d}" in name[0].split("-")


class _Chosen(Stream):
    """A stream whose masks are taken from a source."""

    def __init__(self, whose: str, source: Source) -> None:
        super().__init__(bytes(KEY_BYTES))
        self._whose, self._source = whose, source

    def open(self, step: int) -> Masks:
        super().open(step)
        return _ChosenMasks(self._whose, step, self._source)


class _ChosenMasks(Masks):
    def __init__(self, whose: str, step: int, source: Source) -> None:
        super().__init__(bytes(KEY_BYTES), step)
        self._whose, self._source = whose, source

    def draw(self, purpose: str, count: int, ring: Ring) -> Words:
        return self._source((self._whose, self._step, purpose), count, ring)


class ScriptedParty(Party):
    """A party that draws from a source and keeps what it receives."""

    def __init__(self, channel: Channel, source: Source) -> None:
        rank = channel.rank
        super().__init__(
            channel,
            with_next=_Chosen(f"P{rank:d}-P{rank.next:d}", source),
            with_previous=_Chosen(f"P{rank.previous:d}-P{rank:d}", source),
            with_both=_Chosen("P0-P1-P2", source),
        )
        self._own = _Chosen(f"P{rank:d}", source)
        self.received: list[tuple[int, Words]] = []
        """Bits of an element, and the elements."""

    def _exchange(
        self, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        inboxes = super()._exchange(exchanges, rotations, tag)
        for i, inbox in inboxes.items():
            for source, fields in sorted((inbox or {}).items()):
                expected = exchanges[i].receive[Rank(source)]
                self.received += [
                    (item.width, values)
                    for item, values in zip(expected, fields, strict=True)
                ]
        return inboxes
