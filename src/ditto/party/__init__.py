"""A compute party: keeps plans and shares, runs the one on the other."""

from ditto.party.holdings import forget, hold_plan, hold_weights, resources, run

__all__ = ["forget", "hold_plan", "hold_weights", "resources", "run"]
