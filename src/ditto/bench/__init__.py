"""What a user measures on machines of their own; ``benchmarks/`` has the paper's."""
