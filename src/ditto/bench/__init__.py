"""Side by side: our protocols, the paper's and SPU's own operations."""

from ditto.bench.layer import LayerShape, bench_layer
from ditto.bench.links import bench_links
from ditto.bench.matmul import bench_matmul
from ditto.bench.protocols import Measurement, bench_protocols

__all__ = [
    "LayerShape",
    "Measurement",
    "bench_layer",
    "bench_links",
    "bench_matmul",
    "bench_protocols",
]
