"""The dashboard of ``deploy/grafana``, drawn from what a real Prometheus answers.

Grafana itself draws it nicer. What is shown here is that every panel has something to
show: three parties are loaded, the Prometheus of one of their operators asks its party
for metrics, and each query of the dashboard is put to it.
"""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import ditto
from benchmarks import show
from benchmarks.load import Load
from benchmarks.parties import ORGANISATIONS, Parties, open_parties
from benchmarks.questions import publish_models
from ditto.errors import SetupError
from ditto.files import Json

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "ditto.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
_COLUMNS = 24
_WIDTH, _HEIGHT = 0.62, 0.34
"""Inches of a column and of a row of the dashboard."""
_ANSWER_SECONDS = 30.0
_CLIENTS = 4
_TIMEOUT = 120.0
_UNITS = {"s": "s", "Bps": "B/s"}


@dataclass(frozen=True)
class Series:
    """One line of a panel."""

    name: str
    times: Sequence[float]
    values: Sequence[float]


class Prometheus:
    """A running one, asked by HTTP."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **parameters: str) -> Any:
        """What it says to a query."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://{self._address}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)["data"]

    def series(self, query: str, legend: str, start: float) -> list[Series]:
        """The lines of a query from a time until now."""
        seconds = time.time() - start
        found = self.ask(
            "query_range",
            query=query.replace("$job", ".+"),
            start=f"{start:.3f}",
            end=f"{start + seconds:.3f}",
            step=f"{max(1.0, seconds / 200):.0f}",
        )
        return [
            Series(
                _named(legend, line["metric"]),
                [float(at) - start for at, _ in line["values"]],
                [float(value) for _, value in line["values"]],
            )
            for line in found["result"]
        ]


def main(
    picture: Annotated[Path, typer.Argument(help="Where the picture is written.")],
    seconds: Annotated[int, typer.Option(help="Of load.", min=10)] = 120,
) -> None:
    """Load three parties, and draw what the dashboard shows of it.

    Needs the program prometheus (Debian: apt-get install prometheus). A panel without
    data, or an alert that Prometheus does not understand, is an error.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise SetupError(
            "There is no program prometheus here. On Debian: apt-get install prometheus"
        )
    with ExitStack() as opened:
        parties = opened.enter_context(open_parties())
        questions = publish_models(parties, lengths=[16], tokens=2)
        asked = opened.enter_context(_prometheus(program, parties))
        started = time.time()
        clients = [
            opened.enter_context(
                ditto.Client(parties.deployment, parties.member("client", f"c{k}"))
            )
            for k in range(_CLIENTS)
        ]
        load = Load(clients, questions, _TIMEOUT)
        load.start()
        load.wait_for(len(questions), _TIMEOUT)
        time.sleep(seconds)
        panels = json.loads(DASHBOARD.read_text())["panels"]
        lines = {panel["id"]: _lines(asked, panel, started) for panel in panels}
        outcome = load.finish()
        _check_alerts(asked)
    typer.echo(f"{outcome.completed} answers, {outcome.failed} failed", err=True)
    draw(panels, lines, picture)
    typer.echo(str(picture))


@contextmanager
def _prometheus(program: str, parties: Parties) -> Iterator[Prometheus]:
    """Prometheus, which asks the first organisation's party every second."""
    folder = parties.folder / "prometheus"
    folder.mkdir()
    host, _, port = parties.http[0].rpartition(":")
    address = f"{host}:{port}9"
    party = {
        "targets": [f"{parties.http[0]}0"],
        "labels": {"instance": ORGANISATIONS[0]},
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "ditto", "static_configs": [party]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": address,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  (found on the path by its name)
            [program, *(f"--{name}={value}" for name, value in options.items())],
            stderr=log,
        )
    try:
        asked = Prometheus(address)
        _wait_until_up(asked, process, folder / "log")
        yield asked
    finally:
        process.kill()
        process.wait()


def _wait_until_up(
    asked: Prometheus, process: "subprocess.Popen[bytes]", log: Path
) -> None:
    end = time.monotonic() + _ANSWER_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            if asked.ask("query", query="up == 1")["result"]:
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.2)
    raise SetupError(f"Prometheus does not get at the party:\n{log.read_text()}")


def _lines(asked: Prometheus, panel: Json, start: float) -> list[Series]:
    """All lines of a panel; what shows only failures may have none of them."""
    lines: list[Series] = []
    for target in panel["targets"]:
        found = asked.series(target["expr"], target["legendFormat"], start)
        if not found and "failure" not in target["expr"]:
            raise SetupError(f"{panel['title']!r} has no data for {target['expr']}")
        lines += found
    return lines


def _check_alerts(asked: Prometheus) -> None:
    for group in asked.ask("rules")["groups"]:
        for rule in group["rules"]:
            if rule["health"] != "ok":
                raise SetupError(f"Alert {rule['name']}: {rule['lastError']}")


def _named(legend: str, labels: Mapping[str, str]) -> str:
    """What a line is called, with its labels in."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend)


def draw(
    panels: Sequence[Json], lines: Mapping[int, Sequence[Series]], picture: Path
) -> None:
    """All panels in their places."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT))
    for panel in panels:
        place = panel["gridPos"]
        left, width = place["x"] / _COLUMNS, place["w"] / _COLUMNS
        bottom = 1 - (place["y"] + place["h"]) / rows
        height = place["h"] / rows
        axes = figure.add_axes(
            (left + 0.045, bottom + 0.03, width - 0.06, height - 0.06)
        )
        axes.set_title(panel["title"], loc="left", fontsize="medium")
        show_panel = _stat if panel["type"] == "stat" else _lines_over_time
        show_panel(axes, panel, lines[panel["id"]])
    figure.savefig(picture, dpi=100)


def _stat(axes: Axes, panel: Json, lines: Sequence[Series]) -> None:
    """The last value of every line."""
    del panel
    axes.set_axis_off()
    for k, line in enumerate(lines):
        up = line.values[-1] == 1
        axes.text(
            0,
            0.9 - k / max(6, len(lines)),
            f"{'yes' if up else 'no':4} {line.name}",
            color="tab:green" if up else "tab:red",
            fontsize="small",
            va="top",
            transform=axes.transAxes,
        )


def _lines_over_time(axes: Axes, panel: Json, lines: Sequence[Series]) -> None:
    for line in lines:
        values = np.array(line.values)
        axes.plot(line.times, values, label=line.name, linewidth=1.2)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if unit in _UNITS:
        axes.yaxis.set_major_formatter(EngFormatter(_UNITS[unit]))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize="x-small")
    axes.legend(fontsize="x-small", loc="lower right")


if __name__ == "__main__":
    show.run(main)
