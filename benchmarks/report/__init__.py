"""Results as the paper's tables and figure, with the paper's values beside ours."""

from benchmarks.report.document import Report, write_report

__all__ = ["Report", "write_report"]
