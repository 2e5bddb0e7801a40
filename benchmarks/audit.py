"""Proofs of products and recasts: is every deviation caught, what does a layer pay?"""

import json
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks import show
from ditto.api.backends import PartiesBackend
from ditto.audit import prove_ledger
from ditto.client.tokens import Batch, pad_batch
from ditto.compiler import find_profile
from ditto.errors import PeerError, SetupError
from ditto.files import Json
from ditto.fixedpoint import FxpType, Ring
from ditto.models import random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Audit
from ditto.protocols import (
    agree,
    einsum,
    memory_channels,
    multiply,
    recast_in_place,
    sum_of_squares,
)
from ditto.protocols.channel import Channel
from ditto.protocols.ledger import Ledger
from ditto.protocols.party import Exchange, Field, Inbox, Party
from ditto.runtime import ProcessTrio
from ditto.runtime.trio import raise_first, run_together
from ditto.sharing import Shared, deal

_TYPE, _PRODUCT = FxpType(32, 12), FxpType(32, 20)
_Run = Callable[..., Shared]
_PROTOCOLS: dict[str, tuple[FxpType, _Run, tuple[tuple[int, ...], ...]]] = {
    "multiply": (_TYPE, multiply, ((6, 5), (6, 5))),
    "matmul": (_TYPE, lambda p, x, y: einsum(p, "ij,jk->ik", x, y), ((6, 5), (5, 4))),
    "sum of squares": (_TYPE, sum_of_squares, ((6, 8),)),
    "recast": (_PRODUCT, lambda p, x: recast_in_place(p, x, _TYPE), ((6, 5),)),
    "checked recast": (
        _PRODUCT,
        lambda p, x: recast_in_place(p, x, _TYPE, checked=True),
        ((6, 5),),
    ),
    "upcast": (_TYPE, lambda p, x: recast_in_place(p, x, FxpType(64, 18)), ((6, 5),)),
    "multiply + recast": (
        _TYPE,
        lambda p, x, y: multiply(p, x, y, _TYPE, provable=True),
        ((6, 5), (6, 5)),
    ),
    "matmul + recast": (
        _TYPE,
        lambda p, x, y: einsum(p, "ij,jk->ik", x, y, _TYPE, provable=True),
        ((6, 5), (5, 4)),
    ),
    "matmul + recast in parts": (
        _TYPE,
        lambda p, x, y: einsum(p, "ij,jk->ik", x, y, _TYPE, provable=True),
        ((96, 4), (4, 90)),
    ),
}
"""All protocols whose every message is proved."""
_MOST_EXCHANGES = 3
_CHANGES = "bit", "element", "row", "message", "operand"
"""What is wrong: in a message, or all that follows from another operand."""
_RECASTS: Audit = "recasts"
_SHOWN: tuple[Audit, ...] = "off", "products", _RECASTS


class _Deviating(Party):
    """Changes one field of one message of its protocol, and goes on with it."""

    def __init__(self, party: Party, change: str, rng: np.random.Generator) -> None:
        self.__dict__ = party.__dict__
        self._change, self._rng = change, rng
        self.deviated = self.ended = False
        self._at, self._taken = int(rng.integers(_MOST_EXCHANGES)), 0

    def _exchange(
        self, exchanges: dict[int, Exchange], rotations: Sequence[int], tag: int
    ) -> dict[int, Inbox | None]:
        if self._taken == self._at and not self.ended:
            sent = [f for e in exchanges.values() for s in e.send.values() for f in s]
            if sent and self._change != "operand":
                _spoil(sent[self._rng.integers(len(sent))], self._change, self._rng)
                self.deviated = True
        self._taken += bool(exchanges)
        return super()._exchange(exchanges, rotations, tag)


def _spoil(field: Field, change: str, rng: np.random.Generator) -> None:
    """A bit of an element, an element, six of them, or all."""
    values = field.values.reshape(-1)
    place = int(rng.integers(values.size))
    if change == "bit":
        values[place : place + 1] ^= values.dtype.type(
            1 << int(rng.integers(field.width))
        )
        return
    size = {"element": 1, "row": 6}.get(change, values.size)
    part = values[place : place + size] if size < values.size else values
    part += values.dtype.type(rng.integers(1, 1 << min(field.width, 8)))
    values[...] = Ring(field.width).reduce(values)


def _trial(
    name: str, seed: int, deviating: int | None, change: str
) -> tuple[bool, int]:
    """Whether a party deviated, and how many of the others found out."""
    kind, run, shapes = _PROTOCOLS[name]
    rng = np.random.default_rng(seed)
    dealt = [deal(rng.integers(0, 1 << kind.bits, s, np.uint32), kind) for s in shapes]

    def play(channel: Channel) -> tuple[bool, bool]:
        party, mine = agree(channel, session=b"audit"), [x[channel.rank] for x in dealt]
        if channel.rank == deviating:
            party = _Deviating(party, change, rng)
            if change == "operand":
                wrong = mine[0].first + np.uint32(3 << 29)
                mine[0] = Shared(wrong, mine[0].second, kind)
                party.deviated = True
        ledger = party.ledger = Ledger()
        run(party, *mine)
        party.ledger = None
        if isinstance(party, _Deviating):
            party.ended = True
        fault: object
        try:
            fault = prove_ledger(party, ledger)
        except PeerError as error:
            fault = error
        if fault is not None:
            channel.close()
        return getattr(party, "deviated", False), fault is not None

    jobs = [partial(play, channel) for channel in memory_channels(timeout=60)]
    outcomes = raise_first(run_together(jobs))
    found = sum(f for k, (_, f) in enumerate(outcomes) if k != deviating)
    return any(deviated for deviated, _ in outcomes), found


def _trials(count: int, honest: int) -> Json:
    """Honest runs and runs with a party that deviates, of all covered protocols."""
    names = list(_PROTOCOLS)
    alarms = sum(
        _trial(names[i % len(names)], i, None, "")[1] > 0 for i in range(honest)
    )
    by_change = {change: [0, 0] for change in _CHANGES}
    seed = 0
    while sum(tried for tried, _ in by_change.values()) < count:
        name, change = names[seed % len(names)], _CHANGES[seed % len(_CHANGES)]
        deviated, found = _trial(name, seed, seed // len(names) % 3, change)
        seed += 1
        if deviated:
            by_change[change][0] += 1
            by_change[change][1] += found == 2
    return {
        "honest_runs": honest,
        "false_alarms": alarms,
        "deviations": {change: tried for change, (tried, _) in by_change.items()},
        "stopped_by_both": {change: n for change, (_, n) in by_change.items()},
        "protocols": names,
    }


def _model(preset: str, layers: int, batch_size: int, tokens: int, repeat: int) -> Json:
    """A model without an audit and with each."""
    model = random_model(preset, num_hidden_layers=layers)
    samples = RandomSamples(model.config.vocab_size)
    rows = [samples.row(1000 + k, tokens) for k in range(batch_size)]
    batch = pad_batch(rows, tokens, samples.pad_id)
    job, usual = Computation(Phase.FORWARD, batch_size, tokens), find_profile("ditto")
    plans = {
        provable: Plans(model, usual.replace(provable=provable), samples)
        for provable in (False, True)
    }
    return {
        "preset": preset,
        "layers": layers,
        "batch": batch_size,
        "tokens": tokens,
        "audits": {
            audit: _audited(plans[audit == _RECASTS], job, batch, audit, repeat)
            for audit in _SHOWN
        },
        "load_average": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
    }


def _audited(
    plans: Plans, job: Computation, batch: Batch, audit: Audit, repeat: int
) -> Json:
    """What the runs cost with one audit, by parties of their own."""
    with ProcessTrio(timeout=900) as trio:
        backend = PartiesBackend(plans, trio, audit=audit)
        for _ in range(1 + repeat):  # the first run is not timed
            backend.run(job, [batch.ids, batch.mask])
        memory = max(backend.peak_memory())
    run = backend.runs[-1]
    proofs = [step for step in run.steps if step.kind == "audit"]
    most = [max(float(one["cpu"]) for one in each) for each in backend.spent[1:]]
    seconds = statistics.median(r.seconds for r in backend.runs[1:])
    return {
        "bytes": run.bytes,
        "rounds": run.rounds,
        "proof_bytes": sum(step.bytes for step in proofs),
        "proof_rounds": sum(step.rounds for step in proofs),
        "cpu_seconds": round(statistics.median(most), 2),
        "seconds": round(seconds, 2),
        "memory_bytes": memory,
        "covers": run.audit,
    }


def main(
    trials: Annotated[
        int,
        typer.Option(
            help="Runs in which a party deviates; 0: those in the file are kept.", min=0
        ),
    ] = 1000,
    honest: Annotated[int, typer.Option(help="Honest runs.", min=1)] = 10_000,
    preset: Annotated[str, typer.Option(help="bert-base, bert-large, ...")] = (
        "bert-base"
    ),
    runs: Annotated[
        str, typer.Option(help="Layers and texts at a time, such as 1x1,1x8,12x1.")
    ] = "1x1,1x8,12x1",
    tokens: Annotated[int, typer.Option(help="Tokens.", min=2)] = 128,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 3,
    json_file: show.JsonFile = None,
) -> None:
    """Is every deviation caught, and what do the proofs cost a layer?

    Small runs of all covered protocols in three threads: honest ones, and those in
    which one party changes a message, or uses another operand. Then a model with
    random weights, by three processes over TLS links, without proofs, with those of
    products, and with provable recasts and the proofs of both. The rest of such a
    model nothing proves, so audit=full is refused for it.
    """
    sizes = [_size(run) for run in show.names(runs)]
    results = [_trials(trials, honest) if trials else _trials_before(json_file)]
    found = results[0]
    typer.echo(f"honest: {found['false_alarms']} alarms in {found['honest_runs']} runs")
    for change, tried in found["deviations"].items():
        stopped = found["stopped_by_both"][change]
        typer.echo(f"deviations of one {change}: {stopped} of {tried} stopped by both")
    show.write(json_file, results)
    for layers, batch_size in sizes:
        cost = _model(preset, layers, batch_size, tokens, repeat)
        results.append(cost)
        rows = [
            [
                audit,
                f"{each['bytes'] / 1e6:.3f}",
                f"{each['proof_bytes'] / 1e6:.3f}",
                f"{each['rounds']}",
                f"{each['seconds']:.2f}",
                f"{each['cpu_seconds']:.2f}",
                f"{each['memory_bytes'] / 1e9:.1f}",
            ]
            for audit, each in cost["audits"].items()
        ]
        title = f"{preset}, layers: {layers}, tokens: {tokens}, texts: {batch_size}"
        heads = ["MB", "of proofs", "rounds", "seconds", "party's CPU s", "party GB"]
        show.show(title, ["audit"], heads, rows, None)
        show.write(json_file, results)


def _trials_before(file: Path | None) -> Json:
    """What a run of this command has written of its trials."""
    if file is None or not file.exists():
        raise SetupError("--trials 0 keeps the trials of a --json that is there.")
    before: Json = json.loads(file.read_text())[0]
    return before


def _size(run: str) -> tuple[int, int]:
    layers, _, batch_size = run.partition("x")
    if not (layers.isdecimal() and batch_size.isdecimal()):
        raise SetupError(f"{run!r} is no run: layers, x, texts at a time, such as 1x8.")
    return int(layers), int(batch_size)


if __name__ == "__main__":
    show.run(main)
