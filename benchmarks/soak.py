"""Many questions for a long time: is every answer right, and does nothing grow?"""

import statistics
import time
from contextlib import ExitStack
from typing import Annotated

import typer

import ditto
from benchmarks import show
from benchmarks.load import Load, Outcome
from benchmarks.parties import open_parties
from benchmarks.questions import publish_models

_TIMEOUT = 120.0
_SAY_EVERY = 50


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
    with ExitStack() as opened:
        parties = opened.enter_context(open_parties())
        lengths, tokens = ([16], 0) if short else ([8, 16, 32], 2)
        questions = publish_models(parties, lengths=lengths, tokens=tokens)
        typer.echo(f"{len(questions)} questions, {clients} clients", err=True)
        asking = [
            opened.enter_context(
                ditto.Client(parties.deployment, parties.member("client", f"c{k}"))
            )
            for k in range(clients)
        ]
        first = max(requests // 4, 1)
        warm_up = _ask(Load(asking, questions, _TIMEOUT, most=first), first)
        memory, files = parties.usage()
        started = time.monotonic()
        rest = requests - first
        outcome = _ask(Load(asking, questions, _TIMEOUT, most=rest), rest)
        seconds = time.monotonic() - started
        memory_after, files_after = parties.usage()
    both = (warm_up, outcome)
    taken = sorted(outcome.seconds) or [0.0]
    result = {
        "requests": requests,
        "clients": clients,
        "completed": sum(each.completed for each in both),
        "failed": sum(each.failed for each in both),
        "wrong": sum(each.wrong for each in both),
        "rss_growth": round(memory_after / memory - 1, 4),
        "fd_growth": round(files_after / files - 1, 4),
        "request_throughput": round(outcome.completed / seconds, 3),
        "mean_e2el_ms": round(1000 * statistics.mean(taken), 1),
        "median_e2el_ms": round(1000 * statistics.median(taken), 1),
        "p99_e2el_ms": round(1000 * taken[int(0.99 * (len(taken) - 1))], 1),
        "errors": dict(warm_up.errors + outcome.errors),
        "command": show.command_line("benchmarks.soak"),
    }
    rows = [[name, str(value)] for name, value in result.items()]
    show.show("Soak", ["what"], ["measured"], rows, None)
    show.write(json_file, result)


def _ask(load: Load, count: int) -> Outcome:
    """What became of the questions, while it is said how many are answered."""
    load.start()
    for asked in range(0, count, _SAY_EVERY):
        load.wait_for(min(_SAY_EVERY, count - asked), count * _TIMEOUT)
        typer.echo(f"{load.outcome.ended} of {count}", err=True)
    return load.wait()


if __name__ == "__main__":
    show.run(main)
