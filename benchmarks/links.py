"""Our links beside SPU's own: what a message costs, whatever it says."""

import statistics
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import programs, show
from benchmarks.bare import BareTrio
from benchmarks.network import NETWORKS, Network, find_network, open_hosts

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
        BareTrio(hosts=hosts.hosts, prefixes=hosts.prefixes) as trio,
    ):
        results = []
        for size in sizes:
            for links in ("ditto", "spu"):
                parameters = {"links": links, "size": size, "repeat": repeat}
                replies = trio.call(programs.time_messages, parameters)
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


def main(
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
    network: show.NetworkName = "loopback",
    repeat: Annotated[int, typer.Option(help="Timed messages of each.", min=1)] = 40,
) -> None:
    """What a message costs over our links, and over SPU's own.

    Three processes send to the next and wait for the one before. CPU is a party's, of
    all its threads: it is what three parties on one machine share.
    """
    with Console(stderr=True).status("three parties send"):
        results = bench_links(network=find_network(network), repeat=repeat)
    lines = [
        [
            r["links"],
            f"{r['bytes']:,}",
            f"{r['seconds'] * 1e3:.2f}",
            f"{r['cpu_seconds'] * 1e3:.2f}",
        ]
        for r in results
    ]
    title = f"One message to each party, network {network}"
    show.show(title, ["links"], ["bytes", "ms", "ms of CPU"], lines, markdown_file)
    show.write(json_file, results)


if __name__ == "__main__":
    show.run(main)
