"""region: a graph that SPU computes, in one of its rings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax.numpy as jnp

from ditto.operations import TRAITS, Trait, has
from ditto.operations.spu import spu_frac
from ditto.operations.table import SPU_LIMIT
from ditto.plan import LEAVES, Graph, Node, Region, Representation, Value
from ditto.steps.base import (
    Arithmetic,
    Held,
    Numbers,
    Place,
    Runner,
    Site,
    StepCost,
    StepDefinition,
    demand,
    extremes,
    real_dtype,
    stacked,
)
from ditto.steps.region_errors import region_errors
from ditto.steps.region_values import region_values
from ditto.steps.rules import shared_type

_SYMMETRIC = ("sinh", "cosh")
"""What grows on both sides, as exp does on one."""


@dataclass(frozen=True)
class RunRegion(StepDefinition):
    """Runs the plan's region with an index."""

    name = "region"
    interactive = True
    region: int

    def region_of(self, site: Site) -> Region:
        """The region."""
        return site.plan.regions[self.region]

    def check(self, site: Site) -> None:
        """Operands and results fit the graph's inputs and outputs."""
        count = len(site.plan.regions)
        demand(0 <= self.region < count, f"is one of {count} regions", self.region)
        region = self.region_of(site)
        nodes = [region.graph.nodes[i] for i in region.graph.inputs]
        same = len(nodes) == len(site.operands)
        demand(same, f"takes {len(nodes)} operands", len(site.operands))
        for node, x in zip(nodes, site.operands, strict=True):
            demand(node.shape == x.shape, f"takes shape {node.shape}", x)
            if x.is_shared:
                fits = shared_type(x).bits == region.bits and node.dtype != "bool"
                demand(fits, f"takes shares of {region.bits} bits", x)
            else:
                demand(node.dtype == x.dtype, f"takes {node.dtype}", x)
        ends = [region.graph.nodes[i] for i in region.graph.outputs]
        same = len(ends) == len(site.results)
        demand(same, f"makes {len(ends)} results", len(site.results))
        for node, y in zip(ends, site.results, strict=True):
            bits = y.representation is Representation.BITS
            fits = node.shape == y.shape and not y.is_public
            fits = fits and (node.dtype == "bool") == bits
            demand(fits, f"makes {node.dtype}{list(node.shape)}", y)
            in_ring = y.type is None or y.type.bits == region.bits
            demand(in_ring, f"makes shares of {region.bits} bits", y)

    def cost(self, site: Site, regions: Sequence[StepCost]) -> StepCost:
        """As SPU's table has it."""
        return regions[self.region]

    def execute(
        self, site: Site, operands: Sequence[Held], runner: Runner
    ) -> list[Held]:
        """In SPU's runtime."""
        return runner.run_region(site, operands)

    def simulate(
        self, site: Site, operands: Sequence[Numbers], arithmetic: Arithmetic
    ) -> list[Numbers]:
        """On numbers; what SPU computes wrongly beyond a range is watched."""
        region, graph = self.region_of(site), self.region_of(site).graph
        for x, held in zip(operands, site.operands, strict=True):
            if held.is_shared:
                arithmetic.watch(x, Place.of(site.index, held.fxp))
        watched = _Watched(region.bits)
        values = region_values(region, operands, site.operands, arithmetic)
        watched.look(graph, values)
        for limit, x in watched.ends():
            arithmetic.watch(x, Place(site.index, *limit))
        ends = zip(graph.outputs, site.results, strict=True)
        return [_leave(values[i], graph.nodes[i], y, arithmetic) for i, y in ends]

    def error(
        self, site: Site, operands: Sequence[Numbers], errors: Sequence[Numbers]
    ) -> list[Numbers]:
        """Through the graph, with SPU's own errors."""
        region, graph, unit = self.region_of(site), self.region_of(site).graph, 1.0
        values, given = list(operands), list(errors)
        if any(n.op == "input" and n.dtype == "float32" for n in graph.nodes):
            unit = 2.0 ** -spu_frac(region.bits)
            values = [
                x * unit if graph.nodes[i].dtype == "float32" else x
                for x, i in zip(values, graph.inputs, strict=True)
            ]
            given = [e * unit for e in given]
        found = region_errors(graph, values, given, unit)
        return [
            e / unit if y.is_shared else e
            for e, y in zip(found, site.results, strict=True)
        ]

    def describe(self, site: Site) -> str:
        """The first operations."""
        names = [n.op for n in self.region_of(site).graph.nodes if n.op not in LEAVES]
        distinct = list(dict.fromkeys(names))
        return f"SPU: {', '.join(distinct[:4])}{', …' if len(distinct) > 4 else ''}"

    def renumbered(self, constants: Sequence[int], regions: Sequence[int]) -> Self:
        """See StepDefinition."""
        return replace(self, region=regions.index(self.region))

    def region_used(self) -> int | None:
        """See StepDefinition."""
        return self.region


class _Watched:
    """What SPU computes silently wrong beyond some range, by that range.

    Arguments of functions, products before they are truncated, and integers that are
    shifted to meet others in the low ring.
    """

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._found: dict[tuple[float, float], list[Numbers]] = {}

    def look(self, graph: Graph, values: dict[int, Numbers]) -> None:
        """At every node of a graph."""
        product = 2.0 ** (self._bits - 2 - 2 * spu_frac(self._bits))
        for i, node in enumerate(graph.nodes):
            if node.op in LEAVES:
                continue
            operands = [values[u] for u in node.inputs]
            limit = TRAITS[node.op].spu_limit
            if limit is not None and self._bits == 64:
                both = limit == SPU_LIMIT or node.op in _SYMMETRIC
                for x in operands:
                    self._add(x, -limit if both else -SPU_LIMIT, limit)
            elif has(node.op, Trait.MULTIPLIES) and node.dtype == "float32":
                self._add(values[i], -product, product)
            elif node.op == "mul" and self._bits == 32:
                self._add(values[i], -(2.0**30), 2.0**30)

    def _add(self, x: Numbers, low: float, high: float) -> None:
        if x.size:
            self._found.setdefault((low, high), []).append(x)

    def ends(self) -> list[tuple[tuple[float, float], Numbers]]:
        """Of each range, the least and largest of all that was looked at."""
        return [
            (limit, stacked([extremes(jnp.asarray(x, real_dtype())) for x in xs]))
            for limit, xs in self._found.items()
        ]


def _leave(y: Numbers, node: Node, held: Value, arithmetic: Arithmetic) -> Numbers:
    if held.type is None:
        return y
    y = jnp.asarray(y, real_dtype())
    real = node.dtype == "float32"
    return arithmetic.nearest(y * 2.0**held.type.frac) if real else y
