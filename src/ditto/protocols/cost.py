"""What a protocol costs on the wire, declared beside its code and held by tests."""

from collections.abc import Iterable
from dataclasses import dataclass

from ditto.protocols.party import part_sizes
from ditto.sharing import packed_size


@dataclass(frozen=True)
class Cost:
    """Payload bits sent by all parties together, and rounds."""

    bits: int
    rounds: int

    @classmethod
    def of(cls, count: int, widths: Iterable[int], rounds: int) -> "Cost":
        """Fields of these widths, one value per element, sent once per part."""
        fields = [width for width in widths if width]
        sizes = [packed_size(n, w) for n in part_sizes(count) for w in fields]
        return cls(8 * sum(sizes), rounds)


FREE = Cost(bits=0, rounds=0)
