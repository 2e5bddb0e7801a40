"""The documentation site: ``mkdocs build``. Reference pages are made from the code."""
