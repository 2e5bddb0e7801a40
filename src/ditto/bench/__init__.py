"""Side by side: our protocols, the paper's and SPU's own operations."""

from ditto.bench.matmul import bench_matmul
from ditto.bench.protocols import Measurement, bench_protocols

__all__ = ["Measurement", "bench_matmul", "bench_protocols"]
