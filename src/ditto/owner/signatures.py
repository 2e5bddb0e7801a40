"""What a client needs of a plan."""

from collections.abc import Iterable

from ditto.client.signature import (
    Encoding,
    InputSignature,
    OutputSignature,
    Signature,
)
from ditto.plan import InputRole, InputSpec, Plan


def signature_of(plan: Plan) -> Signature:
    """A plan's inputs and outputs, without its steps."""
    return Signature(
        digest=plan.digest,
        inputs=tuple(_input(plan, spec) for spec in plan.inputs),
        outputs=tuple(
            OutputSignature(o.dtype, plan.values[o.value].type, o.retained)
            for o in plan.outputs
        ),
        result=plan.result,
        range_check=plan.range_check,
    )


def continuations(signatures: Iterable[Signature]) -> list[tuple[str, str]]:
    """Each plan that continues a state, with each that leaves one.

    For plans of one model that were made for one another: all that leave a state leave
    the same, the keys and values of the text so far.
    """
    each = {signature.digest: signature for signature in signatures}
    leaving = [d for d, s in each.items() if any(o.retained for o in s.outputs)]
    return [
        (digest, left)
        for digest, signature in each.items()
        if any(spec.role is InputRole.STATE for spec in signature.inputs)
        for left in leaving
    ]


def _input(plan: Plan, spec: InputSpec) -> InputSignature:
    encodings = []
    for v in spec.encodings:
        value = plan.values[v]
        depth = value.shape[-1] if spec.is_indices(value) else None
        encodings.append(Encoding(v, value.type, depth))
    return InputSignature(
        spec.name, spec.role, spec.shape, spec.dtype, tuple(encodings)
    )
