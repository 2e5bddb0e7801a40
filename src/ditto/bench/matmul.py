"""Our fused matmul beside SPU's fixed-point matmul, in three processes, in one run."""

import statistics
from typing import Any

from ditto.bench import programs
from ditto.engine import ProcessTrio

Shape = tuple[int, int]


def bench_matmul(left: Shape, right: Shape, *, repeat: int) -> list[dict[str, Any]]:
    """Bytes (all parties together) and median seconds of both."""
    shapes = [list(left), list(right)]
    with ProcessTrio(bare_links=True) as processes:
        replies = processes.call(
            programs.time_matmul, {"shapes": shapes, "repeat": repeat}
        )
    slowest = {
        variant: statistics.median(
            max(times) for times in zip(*(r[variant] for r, _ in replies), strict=True)
        )
        for variant in ("native", "spu")
    }
    sent = {
        variant: sum(reply[f"{variant}_bytes"] for reply, _ in replies)
        for variant in ("native", "spu")
    }
    return [
        {
            "variant": variant,
            "shape": f"{left[0]}x{left[1]} by {right[0]}x{right[1]}",
            "bytes": sent[variant],
            "seconds": slowest[variant],
            "repeat": repeat,
        }
        for variant in ("native", "spu")
    ]
