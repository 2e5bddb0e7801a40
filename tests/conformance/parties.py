"""What each party does in the conformance suite; runs in the party's own process."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ditto.errors import MaskReuseError
from ditto.fixedpoint import FxpType, Words
from ditto.frames import Arrays, Json
from ditto.protocols import and_bits, reveal, reveal_to_client, share
from ditto.protocols.party import Exchange, Inbox, Party, Role
from ditto.protocols.registry import ROWS, Owned
from ditto.runtime import Session, from_arrays
from ditto.sharing import Masks, Rank, SharedBits, SharedIndices


class Meter:
    """Bytes and rounds of what happens inside."""

    def __init__(self, party: Party) -> None:
        self._channel = party.channel
        self._channel.restart_clock()
        self._before = self._channel.traffic()

    def read(self) -> Json:
        after = self._channel.traffic()
        sent = [a - b for a, b in zip(after.sent, self._before.sent, strict=True)]
        return {"bytes": sum(sent), "sent": sent, "rounds": after.rounds}


def run_share(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    owner, bits = Rank(parameters["owner"]), parameters["bits"]
    integers = arrays["integers"] if session.party.rank == owner else None
    meter = Meter(session.party)
    result = share(
        session.party,
        integers,
        FxpType(bits, 0),
        owner=owner,
        shape=tuple(parameters["shape"]),
    )
    return meter.read(), {"first": result.first, "second": result.second}


def run_reveal(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    (x,) = from_arrays(arrays, (FxpType(parameters["bits"], 0),))
    to = parameters["to"]
    meter = Meter(session.party)
    opened = reveal(session.party, x, to="all" if to == "all" else Rank(to))
    return meter.read(), {} if opened is None else {"opened": opened}


def run_reveal_to_client(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    (x,) = from_arrays(arrays, (FxpType(parameters["bits"], 0),))
    meter = Meter(session.party)
    revealed = reveal_to_client(session.party, x)
    return meter.read(), revealed.to_arrays("x")


def run_and(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    shape = tuple(parameters["shape"])
    x, y = (SharedBits(arrays[f"{n}1"], arrays[f"{n}2"], shape) for n in "xy")
    meter = Meter(session.party)
    z = and_bits(session.party, x, y)
    return meter.read(), {"first": z.first, "second": z.second}


def run_row(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """A row once, on its part of ``row.deal``: its traffic and its result."""
    return ROWS[parameters["key"]].measure(session.party, arrays)


class Recorder(Party):
    """A party that writes down its view: what it drew and what it received."""

    def __init__(self, party: Party) -> None:
        self.__dict__ = party.__dict__
        self.view: list[tuple[str, int, Words]] = []
        self.roles: list[int] = []

    def _role(self, rotation: int) -> Role:
        role = super()._role(rotation)
        self.roles.append(int(role.rank))
        return Role(
            role.rank,
            _Noted(role.next, "next", self.view),
            _Noted(role.previous, "previous", self.view),
            _Noted(role.own, "own", self.view),
            role.note,
        )

    def _exchange(
        self, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        inboxes = super()._exchange(exchanges, rotations, tag)
        for i, inbox in inboxes.items():
            for source, fields in (inbox or {}).items():
                widths = [e.width for e in exchanges[i].receive[source]]
                for j, (width, values) in enumerate(zip(widths, fields, strict=True)):
                    name = f"received from {source.name} #{j} @{len(self.view)}"
                    self.view.append((name, width, values))
        return inboxes


class _Noted(Masks):
    def __init__(
        self, masks: Masks, whose: str, view: list[tuple[str, int, Words]]
    ) -> None:
        self.__dict__ = masks.__dict__
        self._whose = whose
        self._view = view

    def draw(self, purpose: str, count: int, ring: Any) -> Words:
        values = super().draw(purpose, count, ring)
        name = f"drew {purpose} with {self._whose} @{len(self._view)}"
        self._view.append((name, ring.bits, values))
        return values


def record_view(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """One run; returns every number this party saw, and which roles it played."""
    row = ROWS[parameters["key"]]
    recorder = Recorder(session.party)
    operands = row.take(arrays)
    for i, operand in enumerate(operands):
        if isinstance(operand, Owned):
            continue
        if isinstance(operand, SharedIndices):
            for k, layer in enumerate(operand.keys):
                recorder.view.append(
                    (f"key {k} of operand {i}", 8, layer[:, 24:48].reshape(-1))
                )
            continue
        width = 8 if isinstance(operand, SharedBits) else operand.type.bits
        for side in ("first", "second"):
            values = getattr(operand, side).reshape(-1)
            recorder.view.append((f"{side} share of operand {i}", width, values))
    row.run(recorder, *operands)
    names = [(name, width) for name, width, _ in recorder.view]
    values = {str(i): np.asarray(v) for i, (*_, v) in enumerate(recorder.view)}
    return {"roles": recorder.roles, "view": names}, values


def replay_a_step(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """Run a row, turn the step counter back, and try to run it again."""
    row, party = ROWS[parameters["key"]], session.party
    operands = row.take(arrays)
    row.run(party, *operands)
    party._step -= 1
    try:
        row.run(party, *operands)
    except MaskReuseError as refused:
        party._step += 1
        return {"refused": str(refused)}, {}
    return {}, {}
