"""compile: a function, sample inputs and a profile in; a Plan out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ditto.compiler.calibrate import Calibration, Range, samples_from_bounds
from ditto.compiler.execute import prepare
from ditto.compiler.graph import Builder, Graph
from ditto.compiler.passes.approximate import approximate
from ditto.compiler.passes.coarsen import coarsen
from ditto.compiler.passes.emit import Emitter
from ditto.compiler.passes.lookup import look_up
from ditto.compiler.passes.mask import bound_masks, soften_masks
from ditto.compiler.passes.normalise import normalise
from ditto.compiler.passes.paper import assign_paper_rings
from ditto.compiler.passes.recognise import recognise
from ditto.compiler.passes.rings import Kind, assign_rings, secrets
from ditto.compiler.passes.simplify import simplify
from ditto.compiler.passes.tabulate import is_square, widened
from ditto.compiler.passes.types import assign_types, check_room
from ditto.compiler.plan import Plan, Role, structure_of
from ditto.compiler.profile import Profile, find_profile
from ditto.compiler.trace import Traced, dtype_of, trace
from ditto.compiler.verify import verify, verify_graph
from ditto.errors import SetupError
from ditto.fixedpoint import FxpType

Samples = list[list[Any]]


@dataclass(frozen=True)
class Context:
    """What passes know beside the graph."""

    profile: Profile
    roles: tuple[Role, ...]
    calibration: Calibration | None
    kept: tuple[int, ...]
    like: Plan | None

    def secret(self, graph: Graph) -> list[bool]:
        """For every node, whether it is secret."""
        return secrets(graph, [role == "public" for role in self.roles])

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
        ("bound masks", lambda g, c: bound_masks(g, c.known(g), c.secret(g))),
        ("coarsen", lambda g, c: coarsen(g, c.known(g), c.secret(g), c.margins(g))),
        ("normalise", lambda g, c: normalise(g, c.secret(g))),
        _APPROXIMATE,
        _SIMPLIFY,
    ),
}
"""By engine of the profile, in order. Rings, types and steps follow."""


def compile(  # noqa: A001
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    profile: str | Profile = "ditto",
    calibration: Sequence[Sequence[Any]] | None = None,
    bounds: Sequence[float] | None = None,
    weights: Sequence[int] = (),
    public: Sequence[int] = (),
    state: Sequence[int] = (),
    keep: Sequence[int] = (),
    like: Plan | None = None,
) -> Plan:
    """Compile a JAX function for three parties.

    ``arguments`` are examples of the function's arguments (arrays, or trees of arrays).
    All are secret but those whose positions are in ``public``. Those in ``weights`` are
    secret and always the same, so their ranges need no margin.

    ``calibration`` is a list of sample arguments, each as long as ``arguments``; from
    them the compiler learns how large every value gets. Without samples, ``bounds``
    gives the largest magnitude of each argument, and samples are drawn from it.

    A function that goes on where it stopped returns a tuple, of which the parties
    ``keep`` the results at these positions, and takes them again as the arguments in
    ``state``. ``like`` is a plan whose weights and state are to serve this one too.
    """
    chosen = find_profile(profile)
    for k in (*weights, *public, *state):
        if not 0 <= k < len(arguments):
            raise SetupError(
                f"weights, public and state name arguments 0 to {len(arguments) - 1}, "
                f"got {k}."
            )
    traced = trace(function, arguments)
    roles = tuple(_role(k, weights, public, state) for k in traced.arguments)
    samples = _samples(traced, arguments, calibration, bounds, chosen)
    calibrated = None if samples is None else Calibration(samples)
    context = Context(chosen, roles, calibrated, _kept(traced.result, keep), like)
    graph = _numbers_only(traced.graph, roles)
    for _, run_pass in PASSES[chosen.engine]:
        graph = run_pass(graph, context)
        verify_graph(graph)
    return _finish(graph, traced, context)


def _finish(graph: Graph, traced: Traced, context: Context) -> Plan:
    profile, hidden = context.profile, context.secret(graph)
    types = None
    if profile.engine == "rings":
        margins = _margins(graph, context)
        known = widened(graph, context.known(graph), margins)
        kinds = assign_rings(graph, known, hidden)
        types = assign_types(
            graph,
            kinds,
            known,
            margins,
            weights=_weights(graph, context.roles),
            shown={i for k, i in enumerate(graph.outputs) if k not in context.kept},
            given=_given_fracs(graph, traced, context),
        )
    elif profile.engine == "rings-in-spu":
        kinds = assign_paper_rings(graph, hidden)
    else:
        kinds = ["high" if h else "public" for h in hidden]
    kinds = _native_stay(graph, kinds)
    kept = dict(zip(context.kept, _state_types(context), strict=True))
    _check_kept(graph, context, kept)
    emitter = Emitter(graph, kinds, types, profile, context.roles, traced.names, kept)
    plan = emitter.plan(structure_of(traced.result))
    verify(plan)
    _check_state(plan, context)
    prepare(plan)  # what SPU cannot do is refused now, not when three parties wait
    return plan


def _role(
    argument: int,
    weights: Sequence[int],
    public: Sequence[int],
    state: Sequence[int],
) -> Role:
    if argument in public:
        return "public"
    if argument in state:
        return "state"
    return "weight" if argument in weights else "secret"


def _kept(result: Any, keep: Sequence[int]) -> tuple[int, ...]:
    """The flat results of which the parties keep shares."""
    if not keep:
        return ()
    if not isinstance(result, tuple) or not all(0 <= k < len(result) for k in keep):
        raise SetupError(
            f"keep={list(keep)} names results of a tuple; the function returns "
            f"{len(result) if isinstance(result, tuple) else 'no tuple'}."
        )
    return tuple(i for k in keep for i in jax.tree_util.tree_leaves(result[k]))


def _state_types(context: Context) -> list[FxpType | None]:
    """The types that kept results must have: those of the state before them."""
    count = len(context.kept)
    if context.like is None or not count or not context.like.kept():
        return [None] * count
    held = [value.type for value in context.like.kept()]
    if len(held) != count:
        raise SetupError(
            f"The plan to be like keeps {len(held)} results, this one {count}."
        )
    return list(held)


def _weights(graph: Graph, roles: Sequence[Role]) -> set[int]:
    return {i for k, i in enumerate(graph.inputs) if roles[k] == "weight"}


def _given_fracs(graph: Graph, traced: Traced, context: Context) -> dict[int, int]:
    """The fracs in which weights and state are shared already, by node."""
    if context.like is None:
        return {}
    values = context.like.values
    shared = {
        given.name: values[given.forms[0]].fxp.frac
        for given in context.like.inputs
        if given.role == "weight" and len(given.forms) == 1
    }
    held = iter(value.fxp.frac for value in context.like.kept())
    found: dict[int, int] = {}
    for k, i in enumerate(graph.inputs):
        if context.roles[k] == "state":
            found[i] = next(held)
        elif context.roles[k] == "weight" and traced.names[k] in shared:
            found[i] = shared[traced.names[k]]
    return found


def _check_kept(
    graph: Graph, context: Context, kept: Mapping[int, FxpType | None]
) -> None:
    """A result kept in the type of another plan has to fit it."""
    if context.calibration is None or not any(kept.values()):
        return
    known, margins = context.known(graph), _margins(graph, context)
    for k, due in kept.items():
        i = graph.outputs[k]
        if due is not None:
            check_room(known[i], due, margins[i])


def _check_state(plan: Plan, context: Context) -> None:
    """A state is taken as the run before, and this one, leave it."""
    taken = [plan.values[given.forms[0]].type for given in plan.state if given.forms]
    left = [value.type for value in plan.kept()]
    before = left if context.like is None else [v.type for v in context.like.kept()]
    if taken and (len(taken) != len(left) or taken != before or left != before):
        raise SetupError(
            "The state is not taken in the types it is left in. Compile the function "
            "that begins first, and this one with like=its plan."
        )


def _samples(
    traced: Traced,
    arguments: Sequence[Any],
    calibration: Sequence[Sequence[Any]] | None,
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


def _flat_sample(k: int, sample: Any, arguments: Sequence[Any]) -> list[Any]:
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
        dtype_of(leaf, f"An array of sample {k} of the calibration")
    return leaves


def _native_stay(graph: Graph, kinds: list[Kind]) -> list[Kind]:
    """Inputs and lookups are no part of a region, whatever computes the rest."""

    def settled(op: str, kind: Kind) -> Kind:
        if kind == "public" or op not in ("input", "lookup"):
            return kind
        return "input" if op == "input" else "lookup"

    pairs = zip(graph.nodes, kinds, strict=True)
    return [settled(node.op, kind) for node, kind in pairs]


def _numbers_only(graph: Graph, roles: Sequence[Role]) -> Graph:
    """Secret bits come and leave as the integers 0 and 1: numbers are shared."""
    builder = Builder()
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        inputs = tuple(place[u] for u in node.inputs)
        if node.op == "constant":
            place[i] = builder.constant(graph.constant(i))
        elif node.op != "input":
            place[i] = builder.emit_encoded(node.op, inputs, node.params, node.scope)
        elif node.dtype == "bool" and roles[node.params["index"]] != "public":
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


def _margins(graph: Graph, context: Context) -> list[float]:
    """1 for weights and what follows from them alone, the profile's for the rest.

    Twice as much for what is kept: plans that go on with it are calibrated on others.
    """
    kept = {graph.outputs[k] for k in context.kept} if context.like is None else set()
    users = graph.users()
    fixed: list[bool] = []
    margins: list[float] = []
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            fixed.append(context.roles[node.params["index"]] == "weight")
        else:
            fixed.append(all(fixed[u] for u in node.inputs))
        margin = context.profile.at(node.scope).margin
        if node.op == "dot_general" and is_square(graph, i):
            margin **= 2  # of what has the margin itself
        if node.op == "select_n" and _only_for_maximum(graph, users[i]):
            margin = 1.0  # what is hidden lies as low as others may with their margin
        margins.append(1.0 if fixed[-1] else margin * (2 if i in kept else 1))
    return margins
