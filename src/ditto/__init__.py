"""Ditto: private Transformer inference on secret shares."""

from importlib.metadata import version

__version__ = version("ditto-mpc")

__all__ = ["__version__"]
