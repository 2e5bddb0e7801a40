"""Our links beside SPU's own: what a message costs, whatever it says."""

import statistics
from collections.abc import Sequence
from typing import Any

from ditto.bench import programs
from ditto.bench.network import NETWORKS, Network, open_hosts
from ditto.engine import ProcessTrio

SIZES = (64, 1 << 14, 1 << 18, 1 << 20, 1 << 22)
"""Bytes of a message."""


def bench_links(
    sizes: Sequence[int] = SIZES, *, network: Network | None = None, repeat: int = 40
) -> list[dict[str, Any]]:
    """Each party sends to the next and waits for the one before, over and over.

    Seconds are medians, of the wall clock and of all threads of a party.
    """
    with (
        open_hosts(network or NETWORKS["loopback"]) as hosts,
        ProcessTrio(
            hosts=hosts.hosts, prefixes=hosts.prefixes, bare_links=True
        ) as trio,
    ):
        results = []
        for size in sizes:
            for links in ("ditto", "spu"):
                asked = {"links": links, "size": size, "repeat": repeat}
                replies = trio.call(programs.time_messages, asked)
                results.append(
                    {
                        "links": links,
                        "bytes": size,
                        "network": hosts.network.name,
                        "seconds": _middle(replies, "seconds"),
                        "cpu_seconds": _middle(replies, "cpu_seconds"),
                        "repeat": repeat,
                    }
                )
        return results


def _middle(replies: Sequence[tuple[dict[str, Any], Any]], name: str) -> float:
    return statistics.median(float(reply[name]) for reply, _ in replies)
