"""The contract between owner, client and party: a plan, as data. Needs numpy alone.

In topological order: values, graph, step, writer, plan, reader.
"""

from ditto.plan.audit import (
    AUDITS,
    Audit,
    check_audit,
    check_audit_chance,
    needs_provable,
    stricter,
)
from ditto.plan.graph import LEAVES, Graph, Node, Params, Region
from ditto.plan.plan import RANGE_WORD, Plan, Tree, arrange, structure_of
from ditto.plan.step import Step, StepKind, part_of
from ditto.plan.values import (
    DTYPES,
    InputRole,
    InputSpec,
    OutputSpec,
    Representation,
    Value,
)

__all__ = [
    "AUDITS",
    "DTYPES",
    "LEAVES",
    "RANGE_WORD",
    "Audit",
    "Graph",
    "InputRole",
    "InputSpec",
    "Node",
    "OutputSpec",
    "Params",
    "Plan",
    "Region",
    "Representation",
    "Step",
    "StepKind",
    "Tree",
    "Value",
    "arrange",
    "check_audit",
    "check_audit_chance",
    "needs_provable",
    "part_of",
    "stricter",
    "structure_of",
]
