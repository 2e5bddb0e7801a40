"""The two SPU runtimes of a party, one for each ring."""

import re
from collections.abc import Callable, Sequence

from ditto.errors import DittoError, EngineError, FixedPointTypeError
from ditto.fixedpoint import FxpType
from ditto.operations.spu import FXP_FRAC
from ditto.runtime.spu.library import (
    NativeExecutable,
    NativeLink,
    NativeRuntime,
    libspu,
)
from ditto.runtime.spu.region import Region, RingBits
from ditto.runtime.spu.values import Value, enter, leave
from ditto.sharing import SharedBits


class Runtimes:
    """FM32 and FM64 on sub-links of one link.

    ``spawn`` opens a sub-link. ``failure`` tells whether the link has failed and why,
    which is then the reason of whatever SPU raises.
    """

    def __init__(
        self, spawn: Callable[[], NativeLink], failure: Callable[[], DittoError | None]
    ) -> None:
        self._failure = failure
        self._inside: dict[tuple[RingBits, str], Value] = {}
        try:
            self._runtimes = {bits: _open(spawn(), bits) for bits in FXP_FRAC}
        except Exception as error:  # opening one exchanges seeds with the peers
            raise self._explain(error, "opening the runtimes") from None

    def run(self, region: Region, operands: Sequence[Value]) -> list[Value]:
        """Run a region on shares and return its results as shares."""
        self.put(region, operands)
        try:
            self.execute(region)
        except DittoError:
            self._forget(region)
            raise
        return self.take(region)

    def keep(self, wanted: Sequence[tuple[Region, int, Value]]) -> None:
        """Bring operands of regions in that will come again, as the same objects.

        They stay inside until others are kept.
        """
        due = {(region.bits, region.inputs[k]): x for region, k, x in wanted}
        for (bits, name), held in list(self._inside.items()):
            if due.get((bits, name)) is not held:
                self._runtimes[bits].DelVar(name)
                del self._inside[bits, name]
        for region, k, x in wanted:
            key = region.bits, region.inputs[k]
            if key not in self._inside:
                self._set(region, k, x)
                self._inside[key] = x

    def put(self, region: Region, operands: Sequence[Value]) -> None:
        """Bring a region's operands in."""
        for k, x in enumerate(operands):
            key = region.bits, region.inputs[k]
            if self._inside.get(key) is not x:
                self._inside.pop(key, None)  # regions name their operands alike
                self._set(region, k, x)

    def _set(self, region: Region, k: int, x: Value) -> None:
        real = region.real_inputs[k]
        _check(x, region, real)
        share = enter(x, as_fixed_point=real)
        self._runtimes[region.bits].SetVar(region.inputs[k], share)

    def execute(self, region: Region) -> None:
        """Compute on operands that were put in; results stay inside."""
        executable: NativeExecutable = libspu().Executable()
        executable.ParseFromString(region.code)
        try:
            self._runtimes[region.bits].Run(executable)
        except Exception as error:
            raise self._explain(error, region.name, region) from None

    def take(self, region: Region) -> list[Value]:
        """Bring a region's results out and forget all of its values."""
        try:
            return [self._leave(region, name) for name in region.outputs]
        finally:
            self._forget(region)

    def _leave(self, region: Region, name: str) -> Value:
        share = self._runtimes[region.bits].GetVar(name)
        return leave(share, fxp_frac=FXP_FRAC[region.bits], scope=region.name)

    def _forget(self, region: Region) -> None:
        for name in (*region.inputs, *region.outputs):
            if (region.bits, name) not in self._inside:
                self._runtimes[region.bits].DelVar(name)

    def _explain(
        self, error: Exception, scope: str, region: Region | None = None
    ) -> DittoError:
        link_failure = self._failure()
        if link_failure is not None:
            return link_failure
        operation, reason, hint = _operation(str(error)), _reason(str(error)), ""
        if region:
            scope = _scope(operation, region)
            if region.bits == 32 and "could not represent" in reason:
                hint = " It belongs to the 64-bit ring."
        return EngineError(
            f"SPU failed at {operation!r} in scope {scope!r}: {reason}.{hint}",
            operation=operation,
            scope=scope,
        )


def _open(link: NativeLink, bits: RingBits) -> NativeRuntime:
    native = libspu()
    field = native.FieldType.FM32 if bits == 32 else native.FieldType.FM64
    config = native.RuntimeConfig(protocol=native.ProtocolKind.ABY3, field=field)
    config.fxp_fraction_bits = FXP_FRAC[bits]
    runtime: NativeRuntime = native.RuntimeWrapper(link, config)
    return runtime


def _check(x: Value, region: Region, real: bool) -> None:
    if isinstance(x, SharedBits):
        return
    frac = FXP_FRAC[region.bits] if real else x.type.frac
    due = FxpType(region.bits, frac)
    if x.type != due:
        raise FixedPointTypeError(
            f"Region {region.name!r} takes {due}, got {x.type}. Recast it first."
        )


def _operation(text: str) -> str:
    """The outermost SPU operation in the stack trace of a failure."""
    found = re.findall(r"spu::kernel::hlo::(\w+)\(", text)
    return found[-1] if found else "unknown"


def _reason(text: str) -> str:
    head = re.split("stacktrace", text, maxsplit=1, flags=re.IGNORECASE)[0]
    head = re.sub(r"what:|\[[^\]]*\]", " ", head)
    return re.sub(r"\s+", " ", head).strip(" .")[:300]


_PRIMITIVES = {"Reciprocal": ("div", "integer_pow"), "Div": ("div",)}


def _scope(operation: str, region: Region) -> str:
    wanted = _PRIMITIVES.get(operation, (operation.lower(),))
    scopes = [scope for primitive, scope in region.scopes if primitive in wanted]
    return scopes[0] if scopes else region.name
