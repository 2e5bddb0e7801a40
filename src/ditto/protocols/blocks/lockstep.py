"""Blocks of one role that run in the same rounds, in the same messages.

Steps
    In each round a role sends what all of its blocks send, in their order, and hands to
    each block what it expects. All roles must name the same blocks in the same order.

Cost
    bits add up; rounds are those of the longest.

Security
    The view of a role is its views of the blocks side by side. The blocks draw
    different masks, so it is as harmless as each of them.

Source
    docs/explanation/protocols.md.
"""

from typing import cast

from ditto.protocols.party import (
    Exchange,
    Expected,
    Field,
    Inbox,
    Steps,
    T,
    advance,
)
from ditto.sharing import Rank


def together(*blocks: Steps[T]) -> Steps[list[T]]:
    """The results of all blocks, in order."""
    running = dict(enumerate(blocks))
    results: dict[int, T] = {}
    inboxes: dict[int, Inbox | None] = dict.fromkeys(running)
    while True:
        exchanges = advance(running, inboxes, results)
        if not exchanges:
            return [results[i] for i in range(len(blocks))]
        send: dict[Rank, list[Field]] = {}
        receive: dict[Rank, list[Expected]] = {}
        for exchange in exchanges.values():
            for role, fields in exchange.send.items():
                send.setdefault(role, []).extend(fields)
            for role, expected in exchange.receive.items():
                receive.setdefault(role, []).extend(expected)
        inbox = yield Exchange(send, receive)
        arrived = {role: iter(fields) for role, fields in inbox.items()}
        inboxes = {
            i: {
                role: [next(arrived[role]) for _ in expected]
                for role, expected in exchange.receive.items()
            }
            for i, exchange in exchanges.items()
        }


def beside(block: Steps[T], other: Steps[None]) -> Steps[T]:
    """The result of a block, while another that has none runs in the same rounds."""
    result, _ = yield from together(cast("Steps[T | None]", block), other)
    return cast("T", result)


def idle(rounds: int) -> Steps[None]:
    """Nothing, for so many rounds: beside it all roles of a block end together, so that
    what follows stands in the same messages at all of them."""
    for _ in range(rounds):
        yield Exchange()
