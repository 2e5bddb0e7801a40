"""The two SPU runtimes of a party, one for each ring."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from ditto.engine.links import is_timeout
from ditto.engine.region import Region, RingBits
from ditto.engine.spu_library import libspu
from ditto.engine.values import Value, enter, leave
from ditto.errors import DittoError, EngineError, FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.sharing import Shared, SharedBits

FXP_FRAC: dict[RingBits, int] = {32: 8, 64: 18}
"""The fraction bits of SPU's own fixed point in each ring."""

Blame = Callable[[Exception], DittoError]


class Runtimes:
    """FM32 and FM64 on sub-links of the same links.

    ``blame`` turns a wait that failed into the error that names the peer.
    """

    def __init__(self, spawn: Callable[[], Any], blame: Blame) -> None:
        self._blame = blame
        self._runtimes = {bits: _open(spawn(), bits) for bits in FXP_FRAC}

    def run(
        self, region: Region, operands: Sequence[Shared | SharedBits]
    ) -> list[Value]:
        """Run a region on shares and return its results as shares."""
        runtime = self._runtimes[region.bits]
        frac = FXP_FRAC[region.bits]
        names = (*region.inputs, *region.outputs)
        executable = libspu().Executable()
        executable.ParseFromString(region.code)
        entering = zip(region.inputs, operands, region.real_inputs, strict=True)
        for name, operand, real in entering:
            _check(operand, region, real, frac)
            runtime.SetVar(name, enter(operand, as_fixed_point=real))
        try:
            runtime.Run(executable)
            return [
                leave(runtime.GetVar(name), fxp_frac=frac, scope=region.name)
                for name in region.outputs
            ]
        except RuntimeError as failure:
            raise self._explain(failure, region) from None
        finally:
            for name in names:
                runtime.DelVar(name)

    def _explain(self, failure: RuntimeError, region: Region) -> DittoError:
        if is_timeout(failure):
            return self._blame(failure)
        operation = _operation(str(failure))
        scope = _scope(operation, region)
        reason = _reason(str(failure))
        hint = (
            " It belongs to the 64-bit ring."
            if region.bits == 32 and "could not represent" in reason
            else ""
        )
        return EngineError(
            f"SPU failed at {operation!r} in scope {scope!r} on the {region.bits}-bit "
            f"ring: {reason}.{hint}",
            operation=operation,
            scope=scope,
        )


def _open(link: Any, bits: RingBits) -> Any:
    native = libspu()
    field = native.FieldType.FM32 if bits == 32 else native.FieldType.FM64
    config = native.RuntimeConfig(protocol=native.ProtocolKind.ABY3, field=field)
    config.fxp_fraction_bits = FXP_FRAC[bits]
    return native.RuntimeWrapper(link, config)


def _check(x: Shared | SharedBits, region: Region, real: bool, frac: int) -> None:
    if isinstance(x, SharedBits):
        return
    due = FxpType(region.bits, frac) if real else FxpType(region.bits, x.type.frac)
    if x.type != due:
        raise FixedPointTypeError(
            f"Region {region.name!r} takes {due}, got {x.type}. Recast it first."
        )


def _operation(text: str) -> str:
    """The outermost SPU operation in the stack trace of a failure."""
    found = re.findall(r"spu::kernel::hlo::(\w+)\(", text)
    return found[-1] if found else "unknown"


def _reason(text: str) -> str:
    head = text.split("Stacktrace", maxsplit=1)[0].split("stacktrace", maxsplit=1)[0]
    head = re.sub(r"what:|\[[^\]]*\]", " ", head)
    return re.sub(r"\s+", " ", head).strip(" .")[:300]


_PRIMITIVES = {"Reciprocal": ("div", "integer_pow"), "Div": ("div",)}


def _scope(operation: str, region: Region) -> str:
    wanted = _PRIMITIVES.get(operation, (operation.lower(),))
    scopes = [scope for primitive, scope in region.scopes if primitive in wanted]
    return scopes[0] if scopes else region.name
