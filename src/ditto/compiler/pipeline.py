"""compile: a function, sample inputs and a profile in; a Plan out."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import jax
import numpy as np

from ditto.compiler.bounds import RangeReport, prove, report_ranges, take_proven
from ditto.compiler.builder import Builder
from ditto.compiler.calibrate import Calibration, OnStage, Range, samples_from_bounds
from ditto.compiler.passes.approximate import approximate
from ditto.compiler.passes.centre import centre
from ditto.compiler.passes.coarsen import coarsen
from ditto.compiler.passes.divide_later import cramped, divide_later, room_for_sums
from ditto.compiler.passes.emit import Emitter
from ditto.compiler.passes.lookup import look_up
from ditto.compiler.passes.mask import bound_masks, soften_masks
from ditto.compiler.passes.narrow import narrow_scores
from ditto.compiler.passes.normalise import normalise
from ditto.compiler.passes.paper import assign_paper_rings
from ditto.compiler.passes.pinned import check_room
from ditto.compiler.passes.recognise import recognise
from ditto.compiler.passes.rings import Placement, assign_rings, secrets
from ditto.compiler.passes.simplify import simplify
from ditto.compiler.passes.tabulate import is_square, unmoved, widened
from ditto.compiler.passes.types import Types, assign_types
from ditto.compiler.profile import Profile, find_profile
from ditto.compiler.trace import Traced, trace
from ditto.errors import SetupError
from ditto.fixedpoint import Array, FxpType
from ditto.operations.arguments import check_arguments, computed_dtype
from ditto.plan import Graph, InputRole, Plan, Tree, structure_of
from ditto.runtime.executor import prepare
from ditto.steps import check_graph, check_plan

Samples = list[list[Array]]


@dataclass(frozen=True)
class Context:
    """What passes know beside the graph."""

    profile: Profile
    roles: tuple[InputRole, ...]
    calibration: Calibration | None
    retained: tuple[int, ...]
    reuse_shares_of: Plan | None
    divided_first: Set[str] = frozenset()
    """Scopes whose softmax has no room to be divided after its product."""

    def secret(self, graph: Graph) -> list[bool]:
        """For every node, whether it is secret."""
        return secrets(graph, [role is InputRole.PUBLIC for role in self.roles])

    def ranges(self, graph: Graph) -> list[Range] | None:
        """For every node, what calibration shows of it."""
        return None if self.calibration is None else self.calibration.ranges(graph)

    def margins(self, graph: Graph) -> list[float]:
        """For every node, how far beyond its calibrated range it may go."""
        return _margins(graph, self)

    def known(self, graph: Graph) -> list[Range]:
        """As ``ranges``, where there must be samples."""
        found = self.ranges(graph)
        if found is None:
            raise SetupError("This pass needs calibration.")
        return found

    def bound_masks(self, graph: Graph) -> Graph:
        """The pass of that name; the ranges it tells spare a run on the samples."""
        bounded, ranges = bound_masks(graph, self.known(graph), self.secret(graph))
        if self.calibration is not None:
            self.calibration.assume(bounded, ranges)
        return bounded


OnRanges = Callable[[RangeReport], None]
"""Called with what holds every range of a plan. It tells of the weights more than a
plan may: it is the owner's alone."""

Pass = Callable[[Graph, Context], Graph]

_SIMPLIFY: tuple[str, Pass] = ("simplify", lambda g, _: simplify(g))
_APPROXIMATE: tuple[str, Pass] = (
    "approximate",
    lambda g, c: approximate(g, c.ranges(g), c.secret(g), c.profile),
)
_RECOGNISE: tuple[str, Pass] = (
    "recognise",
    lambda g, c: g if c.profile.exp == c.profile.gelu == "stock" else recognise(g),
)
_LOOK_UP: tuple[str, Pass] = ("look up", lambda g, c: look_up(g, c.secret(g)))
_SOFTEN: tuple[str, Pass] = (
    "soften masks",
    lambda g, c: soften_masks(g, c.secret(g)),
)

PASSES: dict[str, tuple[tuple[str, Pass], ...]] = {
    "spu": (_SIMPLIFY, _LOOK_UP, _SOFTEN, _RECOGNISE, _APPROXIMATE),
    "rings-in-spu": (_SIMPLIFY, _LOOK_UP, _SOFTEN, _RECOGNISE, _APPROXIMATE),
    "rings": (
        _SIMPLIFY,
        _LOOK_UP,
        _RECOGNISE,
        ("bound masks", lambda g, c: c.bound_masks(g)),
        ("coarsen", lambda g, c: coarsen(g, c.known(g), c.secret(g), c.margins(g))),
        ("normalise", lambda g, c: normalise(g, c.secret(g))),
        ("centre", lambda g, c: centre(g, c.secret(g))),
        (
            "divide later",
            lambda g, c: divide_later(g, c.secret(g), c.divided_first),
        ),
        _APPROXIMATE,
        _SIMPLIFY,
    ),
}
"""By engine of the profile, in order. Rings, types and steps follow."""


def compile(  # noqa: A001
    function: Callable[..., Tree],
    arguments: Sequence[Tree],
    *,
    profile: str | Profile = "ditto",
    calibration: Sequence[Sequence[Tree]] | None = None,
    bounds: Sequence[float] | None = None,
    weight_argnums: Sequence[int] = (),
    public_argnums: Sequence[int] = (),
    state_argnums: Sequence[int] = (),
    retain_outputs: Sequence[int] = (),
    reuse_shares_of: Plan | None = None,
    on_ranges: OnRanges | None = None,
    on_stage: OnStage | None = None,
) -> Plan:
    """Compile a JAX function for three parties.

    ``arguments`` are examples of the function's arguments (arrays, or trees of arrays).
    All are secret but those whose positions are in ``public_argnums``. Those in
    ``weight_argnums`` are secret and always the same, so their ranges need no margin.

    ``calibration`` is a list of sample arguments, each as long as ``arguments``; from
    them the compiler learns how large every value gets. Without samples, ``bounds``
    gives the largest magnitude of each argument, and samples are drawn from it.

    A function that continues where it stopped returns a tuple, of which the parties
    retain the results at the positions ``retain_outputs``, and takes them again as the
    arguments in ``state_argnums``. ``reuse_shares_of`` is a plan whose shares of
    weights and state are to serve this one too.

    ``on_ranges`` is called with what holds each range of the plan, a proof, a check or
    samples, if the profile chooses types by ranges. That is for the owner to see, and
    for nobody else. ``on_stage`` is called with what is being done.
    """
    if not callable(function):
        raise SetupError(f"compile takes a function, got {type(function).__name__}.")
    check_arguments(arguments)
    chosen = find_profile(profile)
    for k in (*weight_argnums, *public_argnums, *state_argnums):
        if not 0 <= k < len(arguments):
            raise SetupError(
                f"weight_argnums, public_argnums and state_argnums name arguments 0 to "
                f"{len(arguments) - 1}, got {k}."
            )
    traced = trace(function, arguments)
    roles = tuple(
        _role(k, weight_argnums, public_argnums, state_argnums)
        for k in traced.arguments
    )
    samples = _samples(traced, arguments, calibration, bounds, chosen)
    calibrated = None if samples is None else Calibration(samples, on_stage)
    retained = _retained(traced.result, retain_outputs)
    context = Context(chosen, roles, calibrated, retained, reuse_shares_of)
    graph, placements, types = _typed(traced, context)
    if types is not None and (first := cramped(graph, types.frac)):
        context = replace(context, divided_first=first)
        graph, placements, types = _typed(traced, context)
    return _finish(graph, placements, types, traced, context, on_ranges)


def _typed(
    traced: Traced, context: Context
) -> tuple[Graph, list[Placement], Types | None]:
    """The graph after all passes, and the ring and type of every node."""
    profile = context.profile
    graph = _numbers_only(traced.graph, context.roles)
    for _, run_pass in PASSES[profile.engine]:
        graph = run_pass(graph, context)
        check_graph(graph)
    hidden, types = context.secret(graph), None
    if profile.engine == "rings":
        margins, seen = _margins(graph, context), context.known(graph)
        values = _weight_values(graph, context)
        proof = prove(graph, seen, hidden, values)
        known = widened(graph, take_proven(graph, seen, margins, proof), margins)
        if profile.remainders != "none":  # which make up for what the room costs
            known = room_for_sums(graph, known, margins)
        placements = assign_rings(graph, known, hidden)
        types = assign_types(
            graph,
            placements,
            known,
            margins,
            weights=_weights(graph, context.roles),
            shown={i for k, i in enumerate(graph.outputs) if k not in context.retained},
            given=_given_fracs(graph, traced, context),
            remainders=profile.remainders,
            values=values,
        )
    elif profile.engine == "rings-in-spu":
        placements = assign_paper_rings(graph, hidden)
    else:
        placements = ["high" if h else "public" for h in hidden]
    return graph, _native_stay(graph, placements), types


def _finish(
    graph: Graph,
    placements: list[Placement],
    types: Types | None,
    traced: Traced,
    context: Context,
    on_ranges: OnRanges | None,
) -> Plan:
    profile = context.profile
    if types is not None:
        narrow_scores(graph, placements, types)
    retained = dict(zip(context.retained, _state_types(context), strict=True))
    _check_retained(graph, context, retained)
    emitter = Emitter(
        graph, placements, types, profile, context.roles, traced.names, retained
    )
    plan, origins = emitter.plan(structure_of(traced.result))
    check_plan(plan)
    _check_state(plan, context)
    prepare(plan)  # what SPU cannot do is refused now, not when three parties wait
    if profile.engine == "rings" and on_ranges is not None:
        seen, values = context.known(graph), _weight_values(graph, context)
        hidden = context.secret(graph)
        on_ranges(report_ranges(plan, origins, graph, seen, hidden, values))
    return plan


def _weight_values(graph: Graph, context: Context) -> dict[int, Array]:
    """The weights themselves, by node: they are the same in all samples."""
    if context.calibration is None:
        return {}
    sample = context.calibration.samples[0]
    return {
        i: np.asarray(sample[k])
        for k, i in enumerate(graph.inputs)
        if context.roles[k] is InputRole.WEIGHT
    }


def _role(
    argument: int,
    weight_argnums: Sequence[int],
    public_argnums: Sequence[int],
    state_argnums: Sequence[int],
) -> InputRole:
    if argument in public_argnums:
        return InputRole.PUBLIC
    if argument in state_argnums:
        return InputRole.STATE
    return InputRole.WEIGHT if argument in weight_argnums else InputRole.SECRET


def _retained(result: Tree, retain_outputs: Sequence[int]) -> tuple[int, ...]:
    """The flat results of which the parties retain shares."""
    if not retain_outputs:
        return ()
    if not isinstance(result, tuple) or not all(
        0 <= k < len(result) for k in retain_outputs
    ):
        raise SetupError(
            f"retain_outputs={list(retain_outputs)} names results of a tuple; the "
            f"function returns "
            f"{len(result) if isinstance(result, tuple) else 'no tuple'}."
        )
    return tuple(
        i for k in retain_outputs for i in jax.tree_util.tree_leaves(result[k])
    )


def _state_types(context: Context) -> list[FxpType | None]:
    """The types that retained results must have: those of the state before them."""
    count = len(context.retained)
    if (
        context.reuse_shares_of is None
        or not count
        or not context.reuse_shares_of.retained()
    ):
        return [None] * count
    held = [value.type for value in context.reuse_shares_of.retained()]
    if len(held) != count:
        raise SetupError(
            f"The plan whose shares are reused retains {len(held)} results, this one "
            f"{count}."
        )
    return list(held)


def _weights(graph: Graph, roles: Sequence[InputRole]) -> set[int]:
    return {i for k, i in enumerate(graph.inputs) if roles[k] is InputRole.WEIGHT}


def _given_fracs(graph: Graph, traced: Traced, context: Context) -> dict[int, int]:
    """The fracs in which weights and state are shared already, by node."""
    if context.reuse_shares_of is None:
        return {}
    values = context.reuse_shares_of.values
    shared = {
        spec.name: values[spec.encodings[0]].fxp.frac
        for spec in context.reuse_shares_of.inputs
        if spec.role is InputRole.WEIGHT and len(spec.encodings) == 1
    }
    held = iter(value.fxp.frac for value in context.reuse_shares_of.retained())
    found: dict[int, int] = {}
    for k, i in enumerate(graph.inputs):
        if context.roles[k] is InputRole.STATE:
            found[i] = next(held)
        elif context.roles[k] is InputRole.WEIGHT and traced.names[k] in shared:
            found[i] = shared[traced.names[k]]
    return found


def _check_retained(
    graph: Graph, context: Context, retained: Mapping[int, FxpType | None]
) -> None:
    """A result retained in the type of another plan has to fit it."""
    if context.calibration is None or not any(retained.values()):
        return
    known, margins = context.known(graph), _margins(graph, context)
    for k, due in retained.items():
        i = graph.outputs[k]
        if due is not None:
            check_room(known[i], due, margins[i])


def _check_state(plan: Plan, context: Context) -> None:
    """A state is taken as the run before, and this one, leave it."""
    taken = [
        plan.values[spec.encodings[0]].type for spec in plan.state if spec.encodings
    ]
    left = [value.type for value in plan.retained()]
    before = (
        left
        if context.reuse_shares_of is None
        else [v.type for v in context.reuse_shares_of.retained()]
    )
    if taken and (len(taken) != len(left) or taken != before or left != before):
        raise SetupError(
            "The state is not taken in the types it is left in. Compile the function "
            "that begins first, and this one with reuse_shares_of=its plan."
        )


def _samples(
    traced: Traced,
    arguments: Sequence[Tree],
    calibration: Sequence[Sequence[Tree]] | None,
    bounds: Sequence[float] | None,
    profile: Profile,
) -> Samples | None:
    if calibration is not None:
        return [_flat_sample(k, s, arguments) for k, s in enumerate(calibration)]
    if bounds is not None:
        if len(bounds) != len(arguments):
            raise SetupError(
                f"bounds needs one number for each of {len(arguments)} arguments, got "
                f"{len(bounds)}."
            )
        if not all(float(b) >= 0 for b in bounds):
            raise SetupError(f"Bounds are magnitudes, not negative; got {bounds}.")
        each = [float(bounds[k]) for k in traced.arguments]
        return [list(s) for s in samples_from_bounds(traced.graph, each)]
    if profile.engine == "rings":
        raise SetupError(
            f"Profile {profile.name!r} chooses types from how large values get. Give "
            f"calibration=[sample arguments, ...], or bounds=[largest magnitude of "
            f"each argument] when there is no data."
        )
    return None


def _flat_sample(k: int, sample: Tree, arguments: Sequence[Tree]) -> list[Array]:
    """One sample as flat inputs; it must be shaped as the arguments are."""
    if not isinstance(sample, tuple | list):
        raise SetupError(
            f"Sample {k} of the calibration is a {type(sample).__name__}; each is a "
            f"tuple of all arguments, such as calibration=[(x,), ...]."
        )
    found, due = (
        [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(tuple(given))]
        for given in (sample, arguments)
    )
    if found != due:
        raise SetupError(
            f"Sample {k} of the calibration has arrays of shapes {found}; the "
            f"arguments have {due}."
        )
    leaves = jax.tree_util.tree_leaves(tuple(sample))
    for leaf in leaves:
        computed_dtype(leaf, f"An array of sample {k} of the calibration")
    return leaves


def _native_stay(graph: Graph, kinds: list[Placement]) -> list[Placement]:
    """Inputs and lookups are no part of a region, whatever computes the rest."""

    def settled(op: str, kind: Placement) -> Placement:
        if kind == "public" or op not in ("input", "lookup"):
            return kind
        return "input" if op == "input" else "lookup"

    pairs = zip(graph.nodes, kinds, strict=True)
    return [settled(node.op, kind) for node, kind in pairs]


def _numbers_only(graph: Graph, roles: Sequence[InputRole]) -> Graph:
    """Secret bits come and leave as the integers 0 and 1: numbers are shared."""
    builder = Builder()
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        inputs = tuple(place[u] for u in node.inputs)
        if node.op == "constant":
            place[i] = builder.constant(graph.constants[node.params["index"]])
        elif node.op != "input":
            place[i] = builder.emit_encoded(node.op, inputs, node.params, node.scope)
        elif (
            node.dtype == "bool" and roles[node.params["index"]] is not InputRole.PUBLIC
        ):
            number = builder.input(node.params["index"], node.shape, "int32")
            zero = builder.constant(np.zeros(node.shape, np.int32))
            place[i] = builder.emit("ne", number, zero)
        else:
            place[i] = builder.input(node.params["index"], node.shape, node.dtype)
    outputs = []
    for i in (place[k] for k in graph.outputs):
        if builder.nodes[i].dtype == "bool":
            given = {
                "new_dtype": {"dtype": "int32"},
                "weak_type": False,
                "sharding": None,
            }
            outputs.append(
                builder.emit_encoded("convert_element_type", (i,), given, "")
            )
        else:
            outputs.append(i)
    return builder.finish(outputs)


def _only_for_maximum(graph: Graph, users: list[int]) -> bool:
    return bool(users) and all(graph.nodes[u].op == "coarse_max" for u in users)


def _has_margin_twice(graph: Graph, i: int, fixed: list[bool]) -> bool:
    """Whether a node is a sum of squares, or a product of two tensors that may both go
    as much further than on the samples: what a gate lets through."""
    node = graph.nodes[i]
    if node.op == "dot_general":
        return is_square(graph, i)
    whole = [graph.nodes[unmoved(graph, u)].size == node.size for u in node.inputs]
    apart = len({*node.inputs}) == 2 and not any(fixed[u] for u in node.inputs)
    return node.op == "mul" and node.dtype == "float32" and all(whole) and apart


def _margins(graph: Graph, context: Context) -> list[float]:
    """1 for weights and what follows from them alone, the profile's for the rest.

    Twice as much for what is retained: plans that continue it have other samples.
    """
    kept = (
        {graph.outputs[k] for k in context.retained}
        if context.reuse_shares_of is None
        else set()
    )
    users = graph.users()
    fixed: list[bool] = []
    margins: list[float] = []
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            fixed.append(context.roles[node.params["index"]] is InputRole.WEIGHT)
        else:
            fixed.append(all(fixed[u] for u in node.inputs))
        margin = context.profile.at(node.scope).margin
        if _has_margin_twice(graph, i, fixed):
            margin **= 2
        if node.op == "select_n" and _only_for_maximum(graph, users[i]):
            margin = 1.0  # what is hidden lies as low as others may with their margin
        margins.append(1.0 if fixed[-1] else margin * (2 if i in kept else 1))
    return margins
