"""How long a plan takes on a network, before anything runs.

Three summands: rounds wait for half a round trip each, and a little more; bytes pass
through each party's link, a third of them per party; and the parties compute. The last
is a rough figure for two cores a party, from the rates below.
"""

import re
from dataclasses import dataclass, replace

from ditto.analysis.cost import predict
from ditto.errors import SetupError
from ditto.plan import Plan, Step
from ditto.steps import Site, definition

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
NETWORKS = {"lan": LAN, "wan": WAN}


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


def find_network(network: "Network | str") -> Network:
    """A network, or the one of a name: lan or wan."""
    if isinstance(network, Network):
        return network
    if network not in NETWORKS:
        raise SetupError(
            f"There is no network {network!r}; there are {', '.join(NETWORKS)}, and "
            "Network.parse('40ms', '400mbit')."
        )
    return NETWORKS[network]


def estimate(plan: Plan, network: Network | str = LAN) -> Estimate:
    """The sum over all steps; the network may be ``"lan"`` or ``"wan"``."""
    network = find_network(network)
    waiting = sending = computing = sent = rounds = 0.0
    for i, cost in enumerate(predict(plan)):
        site = Site.of(plan, i)
        waiting += cost.rounds * (network.rtt / 2 + ROUND)
        sending += 8 * cost.bytes / 3 / network.bandwidth
        rate = NATIVE_BYTES if cost.native else SPU_BYTES
        products = definition(site.step).multiplications(site)
        computing += cost.bytes / rate + products / MULTIPLICATIONS
        sent += cost.bytes
        rounds += cost.rounds
    return Estimate(waiting, sending, computing, sent, rounds)


def tune_rounds(plan: Plan, network: Network) -> Plan:
    """The same plan, with every step in as many rounds as are quicker on a network.

    One round sends more bits than two; which is better depends on how long a round is.
    """

    def seconds(i: int, step: Step) -> float:
        site = replace(Site.of(plan, i), step=step)
        cost = definition(step).cost(site, ())
        sent = cost.bits / 8
        waiting = cost.rounds * (network.rtt / 2 + ROUND)
        return waiting + 8 * sent / 3 / network.bandwidth + sent / NATIVE_BYTES

    def best(i: int, step: Step) -> Step:
        kinds = [definition(step).in_rounds(2), definition(step).in_rounds(1)]
        ways = [replace(step, kind=kind) for kind in kinds if kind is not None]
        return min(ways, key=lambda way: seconds(i, way), default=step)

    tuned = tuple(best(i, step) for i, step in enumerate(plan.steps))
    return replace(plan, steps=tuned)


def _number(text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in units:
        raise SetupError(
            f"{text!r} is not understood; write a number and one of "
            f"{', '.join(units)}, such as {example}."
        )
    return float(match.group(1)) * units[unit]
