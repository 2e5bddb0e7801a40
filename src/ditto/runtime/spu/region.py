"""A piece of a program that SPU runs: compiled once, run by all parties."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn

from ditto.errors import UnsupportedOperationError
from ditto.plan import Tree
from ditto.runtime.spu.library import NativeExecutable, libspu

RingBits = Literal[32, 64]
Shaped = jax.Array | jax.ShapeDtypeStruct | ShapedArray


@dataclass(frozen=True)
class Region:
    """An SPU executable with what is needed to run it.

    ``scopes`` maps the names of its operations to where in the function they stand,
    so that a failure inside SPU can be told in the user's terms.
    """

    name: str
    bits: RingBits
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    real_inputs: tuple[bool, ...]
    """For each input, whether it is SPU's fixed point (True) or plain integers."""
    public_inputs: tuple[bool, ...]
    """For each input, whether all parties know it."""
    code: bytes
    scopes: tuple[tuple[str, str], ...]


def compile_region(
    function: Callable[..., Tree],
    arguments: Sequence[Shaped],
    *,
    bits: RingBits,
    name: str,
    public: Sequence[bool] = (),
) -> Region:
    """Compile a JAX function of secret arguments for the ring of ``bits`` bits.

    ``public`` says of each argument whether it is public instead; by default none is.

    Arguments are anything with a shape and a dtype. A float32 argument is SPU's fixed
    point, an int32 argument plain integers. Raises UnsupportedOperationError naming
    the operation that SPU cannot compile.
    """
    jaxpr = jax.make_jaxpr(function)(*arguments)
    equations = _flat_equations(jaxpr.jaxpr, name)
    scopes = tuple((e.primitive.name, scope) for e, scope in equations)
    inputs = tuple(f"in{i}" for i in range(len(arguments)))
    outputs = tuple(f"out{i}" for i in range(len(jaxpr.out_avals)))
    try:
        code = _compile(function, arguments, public)
    except (RuntimeError, NotImplementedError) as failure:
        raise _unsupported(equations, name, failure) from None
    real = tuple(np.issubdtype(a.dtype, np.floating) for a in arguments)
    known = tuple(public) or (False,) * len(arguments)
    return Region(name, bits, inputs, outputs, real, known, code, scopes)


def program_text(region: Region) -> str:
    """The program that SPU runs, in its own language."""
    executable: NativeExecutable = libspu().Executable()
    executable.ParseFromString(region.code)
    code = executable.code
    return code.decode() if isinstance(code, bytes) else str(code)


def _compile(
    function: Callable[..., Tree],
    arguments: Sequence[Shaped],
    public: Sequence[bool] = (),
) -> bytes:
    from spu.utils import frontend

    native = libspu()
    options = native.CompilerOptions()
    options.enable_optimize_denominator_with_broadcast = True
    inputs = [f"in{i}" for i in range(len(arguments))]
    flags = list(public) or [False] * len(inputs)
    kinds = (native.Visibility.VIS_SECRET, native.Visibility.VIS_PUBLIC)
    visibilities = [kinds[flag] for flag in flags]

    def region(*values: jax.Array) -> Tree:
        return function(*values)

    executable, _ = frontend.compile(
        frontend.Kind.JAX,
        region,
        list(arguments),
        {},
        inputs,
        visibilities,
        lambda outs: [f"out{i}" for i in range(len(outs))],
        copts=options,
    )
    serialized: bytes = executable.SerializeToString()
    return serialized


def _unsupported(
    equations: list[tuple[JaxprEqn, str]], name: str, failure: Exception
) -> Exception:
    """Find the culprit by compiling the operations one by one."""
    for equation, scope in equations:
        if not _compiles_alone(equation):
            operation = equation.primitive.name
            return UnsupportedOperationError(
                f"SPU cannot compile {operation!r} in scope {scope!r}. Rewrite that "
                f"part with supported operations (arithmetic, comparison, select, "
                f"reductions, exp, log, rsqrt, tanh, gather by public index).",
                operation=operation,
                scope=scope,
            )
    first = re.sub(r"\s+", " ", str(failure))[:200]
    return UnsupportedOperationError(
        f"SPU cannot compile {name!r}, though each of its operations alone compiles: "
        f"{first}",
        operation="unknown",
        scope=name,
    )


def _flat_equations(jaxpr: Jaxpr, name: str) -> list[tuple[JaxprEqn, str]]:
    """Every equation with its scope, those of called functions included."""
    found: list[tuple[JaxprEqn, str]] = []
    for equation in jaxpr.eqns:
        scope = "/".join(p for p in (name, str(equation.source_info.name_stack)) if p)
        if equation.primitive.name in ("pjit", "jit", "custom_jvp_call"):
            inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            body = cast(Jaxpr, getattr(inner, "jaxpr", inner))
            found += _flat_equations(body, scope)
        else:
            found.append((equation, scope))
    return found


def _compiles_alone(equation: JaxprEqn) -> bool:
    literals = [getattr(v, "val", None) for v in equation.invars]
    free = [
        cast(ShapedArray, v.aval)
        for v, literal in zip(equation.invars, literals, strict=True)
        if literal is None
    ]

    def alone(*values: jax.Array) -> Tree:
        rest = iter(values)
        operands = [next(rest) if v is None else v for v in literals]
        bind: Callable[..., Tree] = equation.primitive.bind
        return bind(*operands, **equation.params)

    try:
        _compile(alone, free)
    except (RuntimeError, NotImplementedError):
        return False
    return True
