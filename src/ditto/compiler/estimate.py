"""How long a plan takes on a network, before anything runs.

Three summands: rounds wait for half a round trip each, and a little more; bytes pass
through each party's link, a third of them per party; and the parties compute. The last
is a rough figure for two cores a party, from the rates below.
"""

import re
from dataclasses import dataclass, replace
from math import prod

from ditto.compiler.cost import native_cost, predict
from ditto.compiler.plan import Plan, Step
from ditto.errors import SetupError

MULTIPLICATIONS = 8e9
"""Of 32-bit integers inside a contraction, per second."""
ROUND = 0.3e-3
"""Seconds that a round takes on a network without any delay."""
NATIVE_BYTES = 600e6
"""Sent by native steps, all parties, per second of computing."""
SPU_BYTES = 60e6
"""Sent by SPU, all parties, per second of computing."""


@dataclass(frozen=True)
class Network:
    """Between any two parties. Seconds there and back; bits per second of a party."""

    rtt: float
    bandwidth: float

    @classmethod
    def parse(cls, rtt: str, bandwidth: str) -> "Network":
        """As people write them: ``40ms`` and ``400mbit``."""
        seconds = _number(rtt, {"us": 1e-6, "ms": 1e-3, "s": 1.0}, "40ms")
        scales = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
        return cls(seconds, _number(bandwidth, scales, "400mbit"))


LAN = Network(rtt=0.4e-3, bandwidth=5e9)
WAN = Network(rtt=40e-3, bandwidth=400e6)


@dataclass(frozen=True)
class Estimate:
    """Seconds of one run, and what they are made of."""

    waiting: float
    sending: float
    computing: float
    bytes: float
    rounds: float

    @property
    def seconds(self) -> float:
        """All of it, one after the other."""
        return self.waiting + self.sending + self.computing


def estimate(plan: Plan, network: Network) -> Estimate:
    """The sum over all steps."""
    waiting = sending = computing = sent = rounds = 0.0
    for step, cost in zip(plan.steps, predict(plan), strict=True):
        waiting += cost.rounds * (network.rtt / 2 + ROUND)
        sending += 8 * cost.bytes / 3 / network.bandwidth
        rate = NATIVE_BYTES if cost.native else SPU_BYTES
        computing += cost.bytes / rate + _contracted(plan, step) / MULTIPLICATIONS
        sent += cost.bytes
        rounds += cost.rounds
    return Estimate(waiting, sending, computing, sent, rounds)


def suited(plan: Plan, network: Network) -> Plan:
    """The same plan, with every step in as many rounds as are quicker on a network.

    One round sends more bits than two; which is better depends on how long a round is.
    """

    def seconds(step: Step) -> float:
        cost = native_cost(plan, step)
        sent = cost.bits / 8
        waiting = cost.rounds * (network.rtt / 2 + ROUND)
        return waiting + 8 * sent / 3 / network.bandwidth + sent / NATIVE_BYTES

    def best(step: Step) -> Step:
        if "rounds" not in step.params or step.params.get("casts") == "paper":
            return step
        ways = [replace(step, params={**step.params, "rounds": n}) for n in (2, 1)]
        return min(ways, key=seconds)

    return replace(plan, steps=tuple(best(step) for step in plan.steps))


def _contracted(plan: Plan, step: Step) -> float:
    """Multiplications of a contraction, at one party."""
    if step.op == "lookup":
        indices, table = (plan.values[v] for v in step.inputs)
        return 2.0 * indices.size * table.size / table.shape[0]
    if step.op not in ("einsum", "contract"):
        return 0.0
    left, right = step.params["subscripts"].split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for labels, v in zip((left, right), step.inputs, strict=True):
        sizes |= dict(zip(labels, plan.values[v].shape, strict=True))
    return 2.0 * prod(sizes.values())


def _number(text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in units:
        raise SetupError(
            f"{text!r} is not understood; write a number and one of "
            f"{', '.join(units)}, such as {example}."
        )
    return float(match.group(1)) * units[unit]
