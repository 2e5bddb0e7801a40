"""Parties that are killed, stopped and cut off under load: is every answer right, does
nothing hang, and how soon is the trio back?"""

import random
import signal
import time
from contextlib import ExitStack
from typing import Annotated

import typer

import ditto
from benchmarks import show
from benchmarks.load import Load
from benchmarks.network import find_network
from benchmarks.parties import Parties, open_parties
from benchmarks.questions import publish_models
from ditto.errors import SetupError

KINDS = ("kill", "stop", "cut")


def main(
    faults: Annotated[int, typer.Option(help="How many.", min=1)] = 30,
    clients: Annotated[int, typer.Option(help="Who ask meanwhile.", min=1)] = 4,
    stopped: Annotated[
        float, typer.Option(help="Seconds that a party stands still or is cut off.")
    ] = 30.0,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a question may take.")
    ] = 90.0,
    kinds: Annotated[
        str, typer.Option(help="Which, separated by commas: kill, stop, cut.")
    ] = ",".join(KINDS),
    network: show.NetworkName = "lan",
    seed: Annotated[int, typer.Option(help="Of moments and parties.")] = 0,
    json_file: show.JsonFile = None,
) -> None:
    """Break three parties of `ditto party serve` on this machine, one at a time.

    Each is in a network namespace of its own, the clients are at the first party's.
    kill: SIGKILL, and a new process a second later. stop: SIGSTOP, later SIGCONT. cut:
    no packet from the party's host or to it arrives, as if a cable were drawn. The
    recovery is counted from the start of the new process, SIGCONT or the mended cable:
    how long a question takes that is asked at that moment, behind those of the others.
    """
    rng = random.Random(seed)  # noqa: S311  (moments, no secrets)
    chosen = show.names(kinds)
    recoveries: dict[str, list[float]] = {kind: [] for kind in chosen}
    with ExitStack() as opened:
        parties = opened.enter_context(open_parties(find_network(network)))
        if parties.hosts is None and "cut" in chosen:
            raise SetupError("loopback cannot be cut: name another --network.")
        questions = publish_models(parties, lengths=[16], tokens=0)
        *asking, probe = (
            opened.enter_context(
                ditto.Client(parties.deployment, parties.member("client", f"c{k}"))
            )
            for k in range(clients + 1)
        )
        load = Load(asking, questions, timeout)
        load.start()
        for number in range(faults):
            time.sleep(rng.uniform(1.0, 4.0))
            kind, rank = chosen[number % len(chosen)], rng.randrange(3)
            break_party(parties, kind, rank, stopped)
            recovery = load.ask(probe, questions[0])
            recoveries[kind].append(recovery)
            typer.echo(f"{number + 1}: {kind} P{rank}, {recovery:.1f} s", err=True)
        outcome = load.finish()
    result = {
        "faults": faults,
        "clients": clients,
        "stopped_seconds": stopped,
        "network": network,
        "completed": outcome.completed,
        "failed": outcome.failed,
        "wrong": outcome.wrong,
        "hangs": outcome.hangs,
        "worst_recovery_seconds": round(max(map(max, recoveries.values())), 2),
        "worst_by_kind": {k: round(max(v), 2) for k, v in recoveries.items() if v},
        "longest_answer_seconds": round(max(outcome.seconds, default=0.0), 2),
        "errors": dict(outcome.errors),
        "command": show.command_line("benchmarks.chaos"),
    }
    rows = [[name, str(value)] for name, value in result.items()]
    show.show("Chaos", ["what"], ["measured"], rows, None)
    show.write(json_file, result)


def break_party(parties: Parties, kind: str, rank: int, stopped: float) -> None:
    """Break a party and mend it."""
    if kind == "kill":
        parties.send(signal.SIGKILL, ranks=[rank])
        time.sleep(1.0)
        parties.start(ranks=[rank])
    elif kind == "stop":
        parties.send(signal.SIGSTOP, ranks=[rank])
        time.sleep(stopped)
        parties.send(signal.SIGCONT, ranks=[rank])
    elif parties.hosts is not None:
        parties.hosts.cut(rank)
        time.sleep(stopped)
        parties.hosts.mend(rank)


if __name__ == "__main__":
    show.run(main)
