"""Two trios against one where the network is the limit; and one of them is killed."""

import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

import ditto
from benchmarks import show
from benchmarks.load import Load, Outcome
from benchmarks.network import find_network
from benchmarks.parties import Parties, open_parties
from benchmarks.questions import Question, publish_models

_TIMEOUT = 300.0
_LENGTH = 8
_TRIOS = 2


@dataclass(frozen=True)
class Part:
    """Answers in a second while there are always questions that wait, and how many
    cores the parties kept busy meanwhile."""

    trios: int
    throughput: float
    cores: float


def main(
    network: show.NetworkName = "wan",
    requests: Annotated[int, typer.Option(help="That are timed.", min=1)] = 24,
    threads: Annotated[int, typer.Option(help="That ask at a time.", min=2)] = 6,
    repeats: Annotated[int, typer.Option(help="Of one trio and of two.", min=1)] = 1,
    json_file: show.JsonFile = None,
) -> None:
    """Ask two trios of `ditto party serve`, and one of them alone, over mTLS.

    Each organisation is a host with its parties of both trios; the hosts have a network
    between them, and the client is at the first. The model is a BERT with one layer of
    width 32, so small that a run waits for messages nearly all of its time. At last all
    three processes of one trio are killed while questions are asked.
    """
    asked = find_network(network)
    with open_parties(asked, trios=_TRIOS, lanes=1) as parties:
        questions = publish_models(parties, lengths=[_LENGTH], tokens=0)
        result = ask_and_kill(parties, questions, requests, threads, repeats)
        if parties.hosts is not None:
            result["measured"] = asdict(parties.hosts.measured)
    result |= {"network": network, "command": show.command_line("benchmarks.trios")}
    plain = {k: v for k, v in result.items() if not isinstance(v, (dict, list))}
    rows = [[name, str(value)] for name, value in plain.items()]
    show.show("Trios", ["what"], ["measured"], rows, None)
    show.write(json_file, result)


def ask_and_kill(
    parties: Parties,
    questions: Sequence[Question],
    requests: int,
    threads: int,
    repeats: int,
) -> dict[str, Any]:
    """Time questions to one trio and to both, then kill one of them under load."""
    alice = parties.member("client", "alice")
    clients = {
        trios: ditto.Client(parties.agreement(trios), alice) for trios in (1, _TRIOS)
    }
    outcomes: list[Outcome] = []
    parts: list[Part] = []

    def asked(trios: int) -> Load:
        """Threads that ask from now on."""
        load = Load([clients[trios]], questions, _TIMEOUT, threads=threads)
        load.start()
        return load

    try:
        load = asked(_TRIOS)  # the first runs of a trio compile
        load.wait_for(threads, _TIMEOUT)
        outcomes.append(load.finish())
        for trios in (1, _TRIOS) * repeats:
            load = asked(trios)
            load.wait_for(threads, _TIMEOUT)  # until questions wait everywhere
            started, used = time.monotonic(), parties.processor_seconds()
            load.wait_for(requests, _TIMEOUT)
            seconds = time.monotonic() - started
            cores = (parties.processor_seconds() - used) / seconds
            parts.append(Part(trios, requests / seconds, cores))
            typer.echo(f"{parts[-1]}", err=True)
            outcomes.append(load.finish())
        load = asked(_TRIOS)
        load.wait_for(threads, _TIMEOUT)
        parties.send(signal.SIGKILL, _TRIOS - 1)
        load.wait_for(2 * threads, _TIMEOUT)
        killed = load.finish()
        outcomes.append(killed)
    finally:
        for client in clients.values():
            client.close()
    one, two = (
        statistics.mean(part.throughput for part in parts if part.trios == trios)
        for trios in (1, _TRIOS)
    )
    return {
        "requests": requests,
        "threads": threads,
        "one_trio_throughput": round(one, 4),
        "two_trios_throughput": round(two, 4),
        "ratio": round(two / one, 3),
        "parts": [asdict(part) for part in parts],
        "completed": sum(each.completed for each in outcomes),
        "failed": sum(each.failed for each in outcomes),
        "wrong": sum(each.wrong for each in outcomes),
        "one_trio_killed": {
            "completed": killed.completed,
            "failed": killed.failed,
            "wrong": killed.wrong,
            "longest_answer_seconds": round(max(killed.seconds, default=0.0), 2),
        },
        "errors": {k: v for each in outcomes for k, v in each.errors.items()},
    }


if __name__ == "__main__":
    show.run(main)
