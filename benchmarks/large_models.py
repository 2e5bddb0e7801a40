"""What a token of a large Llama costs, from plans of one and of two of its layers.

\b
    python -m benchmarks.large_models --presets llama-1b,llama-3b,llama-8b

A plan is made for the whole width and vocabulary and for one layer, and for two; each
further layer is taken to cost what the second does. Weights are random, which cost what
trained ones cost as long as values stay in ranges alike. An 8B model needs 8 GB of
memory for its two layers.

Seconds are those of this machine, whose rates other, smaller models tell first (``ditto
bench machine``), in a minute.

With ``--measure`` three parties run plans of the same widths, with 8,192 words so that
all fit into 24 GB. Their bytes and rounds must be those declared, and the seconds of a
party's processor are written beside those estimated.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks import show
from ditto.analysis import LAN, WAN, Machine, Network, estimate, party_memory
from ditto.analysis.estimation import ROUND
from ditto.api.backends import PartiesBackend
from ditto.bench.machine import fit, measure_machine
from ditto.cli.progress import Stages, stages
from ditto.client.tokens import pad_batch
from ditto.compiler import find_profile
from ditto.errors import SetupError
from ditto.files import Json
from ditto.models import preset_layers, random_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Plan

OUT = Path("docs/results/large_models.json")
PROMPT, CACHE = 32, 64
MEASURED_WORDS = 8192
TOKEN_SECONDS = 33.0
"""What an encrypted Llama of 7B was reported to take on eight GPUs."""
_ROWS = 4
"""Random texts that plans are calibrated on: they are all alike."""
_PREFILL, _DECODE = (
    Computation(Phase.PREFILL, 1, PROMPT),
    Computation(Phase.DECODE, 1, CACHE),
)
NETWORKS: Mapping[str, Network] = {"lan": LAN, "wan": WAN}


def main(
    presets: Annotated[
        str, typer.Option(help="Which, separated by commas.")
    ] = "llama-1b,llama-3b,llama-8b",
    measure: Annotated[
        bool, typer.Option(help="Have three parties run one and two layers.")
    ] = False,
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Bytes, rounds, seconds and memory of a prompt and of a token."""
    rows = []
    with stages(verbose=True) as shown:
        machine = fit(measure_machine(shown.stage))
        for name in show.names(presets):
            row = _row(name, machine, shown)
            if measure:
                row["measured"] = [_measured(name, k, machine, shown) for k in (1, 2)]
            rows.append(row)
            show.write(json_file, rows)
    shown_rows = [
        [row["model"], what, f"{cost['bytes'] / 1e6:.1f}", f"{cost['rounds']:g}",
         f"{cost['seconds_lan']:.1f}", f"{cost['seconds_wan']:.0f}",
         f"{row['memory_bytes'] / 1e9:.1f}"]
        for row in rows
        for what, cost in (("prompt", row["prefill"]), ("token", row["token"]))
    ]  # fmt: skip
    columns = ["MB", "rounds", "LAN s", "WAN s", "party GB"]
    title = f"A prompt of {PROMPT} tokens, and a further token"
    show.show(title, ["model", "of"], columns, shown_rows, None)


def _row(name: str, machine: Machine, shown: Stages) -> Json:
    """One model, from its first two layers."""
    layers = preset_layers(name)
    parts = [_layers(name, k, machine, shown) for k in (1, 2)]
    whole: Json = {"model": name, "layers": layers, "machine": machine.as_json()}
    for what in ("prefill", "token"):
        one, two = (part[what] for part in parts)
        whole[what] = {
            key: two[key] + (layers - 2) * (two[key] - one[key]) for key in two
        }
    one_memory, two_memory = (part["memory_bytes"] for part in parts)
    more = (layers - 2) * (two_memory - one_memory)
    whole["memory_bytes"] = math.ceil(two_memory + more)
    whole["of_layers"] = parts
    whole["longest_rtt_ms"] = _longest_rtt(whole["token"])
    return whole


def _longest_rtt(token: Json) -> float:
    """Milliseconds there and back with which a token takes ``TOKEN_SECONDS`` at the
    bandwidth of the WAN; below 0 if its computing alone takes longer."""
    waiting = token["rounds"] * (WAN.rtt / 2 + ROUND)
    left = TOKEN_SECONDS - (token["seconds_wan"] - waiting)
    return float(round(2e3 * (left / token["rounds"] - ROUND), 1))


def _plans(
    name: str, count: int, shown: Stages, **changes: int
) -> tuple[Plans, dict[str, Plan]]:
    """Of a model of so few layers, those of a prompt and of a token."""
    model = random_model(name, num_hidden_layers=count, **changes)
    samples = RandomSamples(model.config.vocab_size)
    plans = Plans(model, find_profile("ditto"), samples, rows=_ROWS)
    made: dict[str, Plan] = {}
    for what, computation in (("prefill", _PREFILL), ("token", _DECODE)):
        shown.stage(f"{name}, {count} layers, {what}")
        made[what] = plans.plan(computation, shown.stage)
    return plans, made


def _layers(name: str, count: int, machine: Machine, shown: Stages) -> Json:
    """A model of so few layers: what its plans declare."""
    _, made = _plans(name, count, shown)
    memory = max(party_memory(plan).bytes for plan in made.values())
    return {
        **{what: _cost(plan, machine) for what, plan in made.items()},
        "memory_bytes": math.ceil(memory),
    }


def _cost(plan: Plan, machine: Machine) -> Json:
    """What a plan declares, and its seconds on both networks and without any."""
    found = {name: estimate(plan, each, machine) for name, each in NETWORKS.items()}
    lan = found["lan"]
    return {
        "bytes": lan.bytes,
        "rounds": lan.rounds,
        "computing_seconds": lan.computing,
        **{f"seconds_{name}": each.seconds for name, each in found.items()},
    }


def _measured(name: str, count: int, machine: Machine, shown: Stages) -> Json:
    """What three parties take for the same plans with fewer words; refuses figures that
    they do not confirm to the byte."""
    plans, made = _plans(name, count, shown, vocab_size=MEASURED_WORDS)
    samples = RandomSamples(MEASURED_WORDS)
    batch = pad_batch([samples.row(1000, PROMPT)], PROMPT, samples.pad_id)
    parties = PartiesBackend(plans, on_stage=shown.stage)
    try:
        for _ in range(2):  # the first time they also arrange their weights
            begun = parties.run(_PREFILL, (batch.ids, batch.lengths))
            token = np.argmax(begun.result, -1).astype(np.int32)
            ended = parties.run(_DECODE, (token, batch.lengths), begun.state)
            parties.release(ended.state)
        memory = max(parties.peak_memory())
    finally:
        parties.close()
    found: Json = {"layers": count, "words": MEASURED_WORDS, "memory_bytes": memory}
    last = zip(made.items(), parties.runs[-2:], parties.spent[-2:], strict=True)
    for (what, plan), run, spent in last:
        declared = estimate(plan, machine=machine)
        if (run.bytes, run.rounds) != (declared.bytes, declared.rounds):
            raise SetupError(
                f"{what}: the parties sent {run.bytes} bytes in {run.rounds} rounds, "
                f"the plan declares {declared.bytes:g} in {declared.rounds:g}."
            )
        found[what] = {
            "bytes": run.bytes,
            "rounds": run.rounds,
            "seconds": round(run.seconds, 2),
            "processor_seconds": round(max(each["cpu"] for each in spent), 2),
            "estimated_processor_seconds": round(declared.computing, 2),
        }
    return found


if __name__ == "__main__":
    show.run(main, __doc__)
