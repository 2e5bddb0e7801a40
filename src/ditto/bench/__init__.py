"""What a user measures on machines of their own; ``benchmarks/`` has the paper's."""

from ditto.bench.inference import Setting, bench_folder, measure

__all__ = ["Setting", "bench_folder", "measure"]
