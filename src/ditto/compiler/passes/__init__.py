"""Passes, one file each, in the order of ``pipeline.PASSES``; then rings to emit."""
