"""Many questions for a long time: is every answer right, and does nothing grow?"""

import statistics
import time
from typing import Annotated

import typer

from benchmarks import show
from benchmarks.deployment import open_parties, publish_models
from benchmarks.load import Load

_TIMEOUT = 120.0


def main(
    requests: Annotated[int, typer.Option(help="Questions in all.", min=2)] = 1000,
    clients: Annotated[int, typer.Option(help="Who ask at the same time.", min=1)] = 8,
    short: Annotated[
        bool, typer.Option("--short", help="One length and no generated text.")
    ] = False,
    json_file: show.JsonFile = None,
) -> None:
    """Ask three parties of `ditto party serve` on this machine, over mTLS.

    A classifier is asked about texts of several lengths and a language model for
    texts, both tiny; every answer is compared with the simulator's. Memory and open
    files of the parties are compared between the first quarter and the end.
    """
    with open_parties() as parties:
        lengths, tokens = ([16], 0) if short else ([8, 16, 32], 2)
        questions = publish_models(parties, lengths=lengths, tokens=tokens)
        typer.echo(f"{len(questions)} questions, {clients} clients", err=True)
        warm_up = Load(parties, questions, clients, _TIMEOUT, max(requests // 4, 1))
        warm_up.start()
        warm_up.wait()
        memory, files = parties.usage()
        started = time.monotonic()
        rest = requests - max(requests // 4, 1)
        load = Load(parties, questions, clients, _TIMEOUT, rest)
        load.start()
        load.wait()
        seconds = time.monotonic() - started
        memory_after, files_after = parties.usage()
    both = (warm_up.outcome, load.outcome)
    taken = sorted(load.outcome.seconds) or [0.0]
    result = {
        "requests": requests,
        "clients": clients,
        "completed": sum(each.completed for each in both),
        "failed": sum(each.failed for each in both),
        "wrong": sum(each.wrong for each in both),
        "rss_growth": round(memory_after / memory - 1, 4),
        "fd_growth": round(files_after / files - 1, 4),
        "request_throughput": round(load.outcome.completed / seconds, 3),
        "mean_e2el_ms": round(1000 * statistics.mean(taken), 1),
        "median_e2el_ms": round(1000 * statistics.median(taken), 1),
        "p99_e2el_ms": round(1000 * taken[int(0.99 * (len(taken) - 1))], 1),
        "errors": dict(both[0].errors + both[1].errors),
        "command": show.command_line("benchmarks.soak"),
    }
    rows = [[name, str(value)] for name, value in result.items()]
    show.show("Soak", ["what"], ["measured"], rows, None)
    show.write(json_file, result)


if __name__ == "__main__":
    show.run(main)
