"""What arrives at a party as arrays, as the shares that a plan takes.

The arrays come from outside: what does not fit the plan is refused.
"""

from ditto.errors import RequestError
from ditto.plan import InputSpec, Plan
from ditto.sharing import Shared, SharedIndices
from ditto.steps.base import Held as HeldValue
from ditto.wire import Arrays

Held = dict[int, HeldValue]
"""What a party holds of values, by their number: shares, indices or public arrays."""


def receive_inputs(plan: Plan, arrays: Arrays) -> Held:
    """Every input of a plan."""
    held: Held = {}
    for spec in plan.inputs:
        held |= receive_input(plan, spec, arrays)
    return held


def receive_input(plan: Plan, spec: InputSpec, arrays: Arrays) -> Held:
    """One input of a plan, in each encoding that the plan uses."""
    return {v: receive_value(plan, spec, v, arrays) for v in spec.encodings}


def receive_value(plan: Plan, spec: InputSpec, v: int, arrays: Arrays) -> HeldValue:
    """One encoding of an input."""
    value = plan.values[v]
    try:
        if value.type is None:
            public = arrays[f"public{v}"]
            if (public.shape, public.dtype.name) != (spec.shape, spec.dtype):
                raise RequestError(f"{spec.name} does not fit the plan.")
            return public
        if spec.is_indices(value):
            depth, bits = value.shape[-1], value.type.bits
            return SharedIndices(arrays[f"keys{v}"], spec.shape, depth, bits)
        shared = Shared(arrays[f"first{v}"], arrays[f"second{v}"], value.type)
    except KeyError:
        raise RequestError(f"Of {spec.name} nothing was sent.") from None
    if shared.shape != value.shape:
        raise RequestError(f"{spec.name} does not fit the plan.")
    return shared
