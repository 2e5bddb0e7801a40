"""Requests to a service as a picture: when each was sent, and how long it took."""

from collections.abc import Sequence
from pathlib import Path

from ditto.bench.serving import Request
from ditto.extras import require


def plot_requests(requests: Sequence[Request], path: str | Path, title: str) -> None:
    """Write a PNG or an SVG, by the file's name; needs matplotlib."""
    require("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    by_time, by_share = figure.subplots(1, 2, sharey=True, width_ratios=[2, 1])
    good = [each for each in requests if each.error is None]
    bad = [each for each in requests if each.error is not None]
    for group, style, label in ((good, "o", "completed"), (bad, "rx", "failed")):
        if group:
            by_time.plot(
                [each.started for each in group],
                [each.seconds for each in group],
                style,
                label=label,
                markersize=4,
            )
    by_time.set_xlabel("sent, seconds after the first")
    by_time.set_ylabel("seconds to the answer")
    by_time.set_ylim(bottom=0)
    by_time.legend(fontsize="small")
    by_time.set_title(title, loc="left", fontsize="medium")
    ordered = sorted(each.seconds for each in good)
    shares = [100 * (k + 1) / len(ordered) for k in range(len(ordered))]
    by_share.step(shares, ordered, where="post")
    by_share.set_xlabel("percent of the requests")
    figure.savefig(path, dpi=120)
