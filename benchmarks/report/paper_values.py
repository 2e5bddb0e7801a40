"""What the Ditto paper reports, as data. Every figure names the table it is from.

Tables are named by their number and their label in the paper's source. Communication
is in GB over the three parties together, time in seconds. The paper prints no figures
for Bert-large and GPT2-medium: its Figure 4 shows them as points without numbers, and
its text gives only the ranges in ``CLAIMS``. They are not read off the figure here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

LENGTHS = "Table 2 (tab:efficiency-vary-input)"
ABLATION = "Table 3 (tab:softmax-approx)"
BATCHES = "Table 4 (tab:efficiency-varying-batch-size)"
NETWORKS = "Table 5 (tab:varying-network)"

BASELINE, MPCFORMER, PUMA = "Baseline", "MPCFormer", "PUMA"
DITTO, DITTO_WITHOUT_QUAD = "Ditto", "Ditto w/o {a}"
METHODS = (BASELINE, MPCFORMER, PUMA, DITTO)
"""The methods of tables 2, 4 and 5, in their order. Ditto is with Quad. The tables do
not name MPCFormer's variant; the text about them compares with MPCFormer (Quad)."""


@dataclass(frozen=True)
class PaperValue:
    """One run of the paper: what it sent, how long it took."""

    table: str
    model: str
    method: str
    seq: int
    batch: int
    network: str
    gigabytes: float | None
    seconds: float


# By method: (GB, seconds) for each of the lengths 32, 64, 128, 256. Batch 1, LAN.
_BY_LENGTH = {
    "bert-base": {
        BASELINE: ((2.79, 13.57), (6.24, 27.32), (15.12, 53.17), (40.65, 114.83)),
        MPCFORMER: ((2.08, 35.15), (3.02, 63.94), (6.70, 124.81), (19.12, 253.20)),
        PUMA: ((2.16, 12.97), (4.65, 22.59), (10.59, 43.98), (26.07, 88.70)),
        DITTO: ((0.72, 7.36), (1.68, 14.80), (4.35, 30.58), (12.78, 62.48)),
    },
    "gpt2-base": {
        BASELINE: ((8.88, 37.88), (12.50, 52.63), (22.03, 84.04), (47.91, 157.47)),
        MPCFORMER: ((3.05, 57.57), (4.01, 104.97), (7.73, 182.20), (20.24, 403.85)),
        PUMA: ((8.61, 35.22), (11.95, 48.33), (17.57, 73.77), (33.00, 131.33)),
        DITTO: ((3.59, 19.52), (5.18, 29.41), (8.25, 49.93), (17.44, 93.52)),
    },
}

# By method: (GB, seconds) for each of the batches 1, 2, 4, 8. Bert-base, length 128.
_BY_BATCH = {
    BASELINE: ((15.12, 53.17), (30.21, 97.56), (60.49, 185.63), (120.77, 365.76)),
    MPCFORMER: ((6.70, 124.81), (11.77, 227.82), (21.93, 432.06), (42.25, 839.83)),
    PUMA: ((10.59, 43.98), (21.20, 79.70), (42.27, 153.88), (84.65, 297.90)),
    DITTO: ((4.35, 30.58), (8.68, 56.29), (17.35, 107.52), (34.96, 208.63)),
}

# Seconds of the methods in their order. The table gives no lengths; its LAN seconds of
# Bert-base are those of length 128, and MPCFormer's of GPT2-base those of length 32.
# The other LAN seconds of GPT2-base differ from table 2: both stand as printed.
_BY_NETWORK = {
    ("bert-base", 128, "lan"): (53.17, 124.81, 43.98, 30.58),
    ("bert-base", 128, "wan"): (551.45, 888.55, 444.43, 303.50),
    ("gpt2-base", 32, "lan"): (39.60, 57.57, 38.33, 20.30),
    ("gpt2-base", 32, "wan"): (382.98, 588.14, 357.65, 233.32),
}

SPEEDUPS = {
    ("bert-base", DITTO_WITHOUT_QUAD): 1.41,
    ("bert-base", DITTO): 1.74,
    ("bert-large", DITTO_WITHOUT_QUAD): 1.56,
    ("bert-large", DITTO): 2.09,
}
"""From table 3: how many times faster than Baseline. Length 128, batch 1, LAN."""

SETTINGS = {"bert": (128, 1), "gpt2": (32, 1)}
"""Length and batch of Figure 4, by the beginning of a model's name."""

CLAIMS = (
    "Over its four models, the paper says of Ditto with Quad that it sends 2.37 to "
    "3.43 times less than PUMA and 1.28 to 1.70 times less than MPCFormer (Quad), and "
    "is 1.44 to 2.35 times faster than PUMA and 3.14 to 4.40 times faster than "
    "MPCFormer (Quad). It prints no figures for bert-large and gpt2-medium."
)
"""From the text beside Figure 4 (section Efficiency Evaluation)."""

SETUP = (
    "The paper: one machine, AMD Ryzen, 32 cores at 3.60 GHz, 256 GB; LAN of 5 Gbit/s "
    "and 0.4 ms round trip, WAN of 400 Mbit/s and 40 ms."
)
"""From the section on the experiments' setup."""


def _values() -> Iterator[PaperValue]:
    for model, methods in _BY_LENGTH.items():
        for method, cells in methods.items():
            for seq, (sent, seconds) in zip((32, 64, 128, 256), cells, strict=True):
                yield PaperValue(LENGTHS, model, method, seq, 1, "lan", sent, seconds)
    for method, cells in _BY_BATCH.items():
        for batch, (sent, seconds) in zip((1, 2, 4, 8), cells, strict=True):
            yield PaperValue(
                BATCHES, "bert-base", method, 128, batch, "lan", sent, seconds
            )
    for (model, seq, network), times in _BY_NETWORK.items():
        for method, seconds in zip(METHODS, times, strict=True):
            yield PaperValue(NETWORKS, model, method, seq, 1, network, None, seconds)


VALUES = tuple(_values())


def method_of(profile: str, gelu: str) -> str | None:
    """The paper's method that a profile answers to, if it has one."""
    name = profile.lower()
    if name.startswith("mpcformer"):
        return None if "2relu" in name or "2quad" in name else MPCFORMER
    if name in ("paper", "ditto"):
        return DITTO if gelu == "quad" else DITTO_WITHOUT_QUAD
    return {"spu": BASELINE, "puma": PUMA}.get(name)


def network_of(name: str) -> tuple[str, bool]:
    """The paper's network for one of ours, and whether it is another one."""
    network = name.lower()
    return (network, False) if network in ("lan", "wan") else ("lan", True)


@dataclass(frozen=True)
class Compared:
    """What a method sends and takes, and how many times less than PUMA that is."""

    gigabytes: float | None
    seconds: float | None
    less: float | None
    faster: float | None

    @property
    def empty(self) -> bool:
        """Whether the paper says nothing."""
        return self.gigabytes is None and self.seconds is None


def compared(
    model: str,
    method: str | None,
    seq: int,
    batch: int,
    network: str,
    *,
    table: str | None = None,
) -> Compared:
    """The paper's figures, from the first table that has them or from the one named.

    Communication does not depend on the network; the paper gives it for its LAN.
    """
    sent, base_sent = (_gigabytes(model, m, seq, batch) for m in (method, PUMA))
    time, base_time = (
        _seconds(model, m, seq, batch, network, table) for m in (method, PUMA)
    )
    return Compared(sent, time, _times(base_sent, sent), _times(base_time, time))


def speedup(
    model: str, method: str, seq: int, batch: int, network: str
) -> float | None:
    """How many times faster than Baseline: table 3, or else by the other tables."""
    if (model, method) in SPEEDUPS and (seq, batch, network) == (128, 1, "lan"):
        return SPEEDUPS[model, method]
    what = seq, batch, network, None
    return _times(_seconds(model, BASELINE, *what), _seconds(model, method, *what))


def _times(base: float | None, value: float | None) -> float | None:
    return base / value if base and value else None


def _seconds(
    model: str,
    method: str | None,
    seq: int,
    batch: int,
    network: str,
    table: str | None,
) -> float | None:
    for v in VALUES:
        if (v.model, v.method, v.seq, v.batch) != (model, method, seq, batch):
            continue
        if v.network == network and table in (None, v.table):
            return v.seconds
    return None


def _gigabytes(model: str, method: str | None, seq: int, batch: int) -> float | None:
    for v in VALUES:
        same = (v.model, v.method, v.seq, v.batch) == (model, method, seq, batch)
        if same and v.gigabytes is not None:
            return v.gigabytes
    return None
