"""Answers that are wrong, and whether the parties say so; see ``benchmarks.safety``.

In topological order: inputs, search, subject, counts.
"""
