"""How long a plan takes on a network, before anything runs.

Three summands: rounds wait for half a round trip each, and a little more; bytes pass
through each party's link, a third of them per party; and the parties compute. The last
is a rough figure for two cores a party, from the rates of a machine (``machine``).
"""

import re
from dataclasses import astuple, dataclass, replace

from ditto.analysis.audits import proofs_of
from ditto.analysis.cost import predict
from ditto.analysis.machine import USUAL, Machine
from ditto.analysis.memory import party_bytes
from ditto.errors import SetupError
from ditto.plan import Audit, Plan, Step
from ditto.protocols import Rounds
from ditto.steps import Site, definition

ROUND = 0.3e-3
"""Seconds that a round takes on a network without any delay."""
MESSAGE = 0.64e-3
"""Of a round's seconds of processor, what a step is charged when plans are tuned: the
rest is its own work. Chosen, not measured: with it 12 layers of width 768 and 128
tokens take less than 0.5 GB and less than 600 rounds on a LAN.
"""

_ROUNDS: tuple[Rounds, ...] = (2, 1, 3)
"""What steps leave the choice of; the first is taken where it makes no difference."""


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


def estimate(
    plan: Plan,
    network: Network | str = LAN,
    machine: Machine = USUAL,
    audit: Audit = "off",
) -> Estimate:
    """The sum over all steps; the network may be ``"lan"`` or ``"wan"``.

    Of a run that is audited, with its proofs: these are at most so many.
    """
    network, done = find_network(network), work_of(plan, audit)
    sent = done.sent + done.spu_sent
    return Estimate(
        waiting=done.rounds * (network.rtt / 2 + ROUND),
        sending=8 * sent / 3 / network.bandwidth,
        computing=done.seconds(machine),
        bytes=sent,
        rounds=done.rounds,
    )


@dataclass(frozen=True)
class Work:
    """What a machine needs its seconds for, in the order of ``Machine``'s fields."""

    multiplications: float = 0.0
    read: float = 0.0
    """Bytes of weights."""
    sent: float = 0.0
    """Bytes of our steps, all parties together."""
    spu_sent: float = 0.0
    rounds: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        both = zip(astuple(self), astuple(other), strict=True)
        return Work(*(a + b for a, b in both))

    def seconds(self, machine: Machine) -> float:
        """Of a party's processor."""
        each = zip(astuple(self), astuple(machine), strict=True)
        return float(sum(count * seconds for count, seconds in each))


def work_of(plan: Plan, audit: Audit = "off") -> Work:
    """Of the whole plan, and of its proofs."""
    proofs, weights = proofs_of(plan, audit), plan.weights()
    total = Work(proofs.multiplications, sent=proofs.bytes, rounds=proofs.rounds)
    for i, cost in enumerate(predict(plan, audited=audit != "off")):
        site = Site.of(plan, i)
        inputs = [plan.values[v] for v in site.step.inputs if v in weights]
        total += Work(
            definition(site.step).multiplications(site),
            sum(map(party_bytes, inputs)) if site.step.kind.interactive else 0.0,
            cost.bytes if cost.native else 0.0,
            0.0 if cost.native else cost.bytes,
            cost.rounds,
        )
    return total


def tune_rounds(plan: Plan, network: Network) -> Plan:
    """The same plan, with every step in as many rounds as are quicker on a network.

    One round sends more bits than two, and two more than three; which is best depends
    on how long a round is.
    Steps that share their rounds are looked at together: none sends more bits to end
    before the longest of them does.
    """
    wait = network.rtt / 2 + ROUND + MESSAGE
    steps = list(plan.steps)
    for group in plan.round_groups():
        ways = [_ways(plan, i, network) for i in group]
        limits = {way.rounds for each in ways for way in each}
        chosen = [
            (limit * wait + sum(way.seconds for way in found), found)
            for limit in sorted(limits)
            if (found := _quickest(ways, limit)) is not None
        ]
        _, best = min(chosen, key=lambda pair: pair[0])
        for i, way in zip(group, best, strict=True):
            steps[i] = way.step
    return replace(plan, steps=tuple(steps))


@dataclass(frozen=True)
class _Way:
    """A step in some number of rounds, and how long its bytes take."""

    step: Step
    rounds: float
    seconds: float


def _ways(plan: Plan, i: int, network: Network) -> list[_Way]:
    """All that a step leaves the choice of; it as it is, if it leaves none."""
    site = Site.of(plan, i)
    kinds = [definition(site.step).in_rounds(rounds) for rounds in _ROUNDS]
    steps = [replace(site.step, kind=kind) for kind in kinds if kind is not None]
    if not steps and not site.step.kind.batchable:
        return [_Way(site.step, 0.0, 0.0)]
    found = []
    for step in steps or [site.step]:
        cost = definition(step).cost(replace(site, step=step), ())
        sent = cost.bits / 8
        seconds = 8 * sent / 3 / network.bandwidth + sent * USUAL.byte_sent
        found.append(_Way(step, cost.rounds, seconds))
    return found


def _quickest(ways: list[list[_Way]], limit: float) -> list[_Way] | None:
    """For every step the way that sends least in so many rounds, if all have one."""
    found = []
    for each in ways:
        short = [way for way in each if way.rounds <= limit]
        if not short:
            return None
        found.append(min(short, key=lambda way: way.seconds))
    return found


def _number(text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in units:
        raise SetupError(
            f"{text!r} is not understood; write a number and one of "
            f"{', '.join(units)}, such as {example}."
        )
    return float(match.group(1)) * units[unit]
