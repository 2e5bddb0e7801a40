"""What an SPU region will send, from the text of its program and a measured table.

SPU compiles a region to a list of operations on typed tensors. ``spu_costs.json`` holds
for each operation bits per element and rounds, as measured by ``benchmarks.spu_cost``;
a test measures them again. An operation is told by its name, its number type and, for
each operand, whether it is public (p), secret (s), or secret and shared bitwise: as
an order (b), an equality (e) or a rounding (w) leaves it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import ceil, log2, prod

from ditto.runtime import Region
from ditto.runtime.spu.region import program_text

_TENSOR = re.compile(r"tensor<((?:\d+x)*)(!pphlo\.secret<)?(\w+)>?>")
_OPERATION = re.compile(
    r"^\s*(%[\w:]+) = \"?pphlo\.(\w+)\"?(?: @(?:mhlo\.)?([\w.]+))?(.*)$"
)
_NAMES = re.compile(r"%\w+(?:#\d+)?")

BITWISE = {
    **dict.fromkeys(("less", "greater", "less_equal", "greater_equal"), "b"),
    **dict.fromkeys(("equal", "not_equal"), "e"),
    **dict.fromkeys(("floor", "ceil", "round_nearest_afz"), "w"),
}
"""Operations whose result is shared bitwise, and how."""
_LOGIC = frozenset(("and", "or", "xor", "not"))
_LETTERS = "webs p"
_COMMUTING = frozenset(("add", "multiply", "and", "or", "xor", "equal"))
_KEEPING = frozenset(
    [
        "broadcast",
        "concatenate",
        "convert",
        "reshape",
        "reverse",
        "slice",
        "transpose",
        "pad",
    ]
)
"""Operations whose result is shared as their first operand is."""
_SUMS = frozenset(("add", "subtract"))
"""Free, unless an operand is shared bitwise."""
_FREE = frozenset(
    [
        "negate",
        "constant",
        "iota",
        "free",
        "return",
        "concatenate",
        "broadcast",
        "convert",
        "reshape",
        "reverse",
        "slice",
        "transpose",
        "pad",
        "bitcast_convert",
        "dynamic_slice",
        "dynamic_update_slice",
        "broadcast_as",
    ]
)


@dataclass(frozen=True)
class Tensor:
    """A typed tensor of the program."""

    shape: tuple[int, ...]
    secret: bool
    dtype: str

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Operation:
    """One line of the program."""

    name: str
    kind: str
    """Number type and operand letters, such as ``f:sp``."""
    elements: int
    repeats: int = 1
    """How often its rounds are taken, one after the other."""

    @property
    def key(self) -> str:
        """The row of the table."""
        return f"{self.name} {self.kind}"


@dataclass(frozen=True)
class RegionCost:
    """Bits of all parties, rounds, and operations the table does not know."""

    bits: float
    rounds: float
    unknown: tuple[str, ...]


@lru_cache(maxsize=1)
def table() -> Mapping[str, Mapping[str, tuple[float, float]]]:
    """Bits per element and rounds, by ring and operation."""
    text = files("ditto.analysis").joinpath("spu_costs.json").read_text()
    loaded: dict[str, dict[str, tuple[float, float]]] = json.loads(text)
    return loaded


def region_cost(
    region: Region, known: Mapping[str, tuple[float, float]] | None = None
) -> RegionCost:
    """The cost of a compiled region."""
    rows = table()[str(region.bits)] if known is None else known
    bits, rounds, unknown = 0.0, 0.0, []
    for operation in operations(program_text(region)):
        if operation.key not in rows:
            unknown.append(operation.key)
            continue
        row = rows[operation.key]
        bits += row[0] * operation.elements
        rounds += row[1] * operation.repeats
    return RegionCost(bits, rounds, tuple(unknown))


def operations(text: str) -> list[Operation]:
    """The operations of a program that send something, or may."""
    found: list[Operation] = []
    letters: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        match = _OPERATION.match(line)
        if not match:
            continue
        result, name, call, rest = match.groups()
        names = _NAMES.findall(rest.split(" : ", 1)[0])
        tensors = [_tensor(m) for m in _TENSOR.finditer(rest.rsplit(" : ", 1)[-1])]
        if name in ("reduce", "reduce_window") and tensors:
            found += _reduction(rest, lines, tensors)
        elif name == "while":
            found.append(Operation("while", "", 0))
            _body(lines)
        else:
            label = call or name
            kind = _kind(names, tensors, letters)
            if label in _COMMUTING:
                number, marks = kind.split(":")
                kind = f"{number}:{''.join(sorted(marks, key=_LETTERS.index))}"
            out = tensors[-1] if tensors else None
            sends = label not in _FREE and not (
                label in _SUMS and not set("web") & set(kind.split(":")[1])
            )
            public_choice = label == "select" and kind.split(":")[1][:1] == "p"
            if out and out.secret and sends and not public_choice:
                found.append(_plain(label, kind, tensors))
            letters[result.split(":")[0]] = _letter(label, kind, out)
    return found


def _tensor(match: "re.Match[str]") -> Tensor:
    shape, secret, dtype = match.groups()
    return Tensor(tuple(int(n) for n in shape.split("x") if n), bool(secret), dtype)


def _kind(names: list[str], tensors: list[Tensor], letters: dict[str, str]) -> str:
    """Number type and a letter for each operand."""
    operands = [n.split("#")[0] for n in names]
    types = tensors[:-1] if len(tensors) > len(operands) else tensors * len(operands)
    marks = []
    for name, held in zip(operands, types, strict=False):
        if not held.secret:
            marks.append("p")
        else:
            marks.append(letters.get(name, "b" if held.dtype == "i1" else "s"))
    number = "f" if any(t.dtype.startswith("f") for t in types) else "i"
    if types and all(t.dtype == "i1" for t in types):
        number = "b"
    return f"{number}:{''.join(marks)}"


def _letter(label: str, kind: str, out: Tensor | None) -> str:
    if out is None or not out.secret:
        return "p"
    marks = kind.split(":")[1]
    if label in BITWISE:
        return BITWISE[label]
    if label in _LOGIC:
        return "e" if "e" in marks else "b"
    if label in _KEEPING and marks and marks[0] != "p":
        return marks[0]
    return "s"


def _plain(label: str, kind: str, tensors: list[Tensor]) -> Operation:
    out, repeats = tensors[-1], 1
    if label == "dot_general":
        repeats = out.shape[0] if len(out.shape) > 2 else 1  # batch by batch
        label = "dot"
    return Operation(label, kind, out.size, repeats)


def _reduction(
    rest: str, lines: Iterator[str], tensors: list[Tensor]
) -> list[Operation]:
    """A tree of pairwise steps."""
    source = tensors[0]
    out = tensors[-1]
    pairs = source.size - out.size
    depth = ceil(log2(max(source.size // max(out.size, 1), 1)))
    if not _trailing(rest, len(source.shape)):
        pairs, depth = pairs + out.size, depth + 1  # the initial value joins in
    if applied := re.search(r"applies pphlo\.(\w+)", rest):
        body = [Operation(applied.group(1), _pair_kind(source), 1)]
        body = [o for o in body if o.name not in _FREE | _SUMS]
    else:
        body = operations("\n".join(_body(lines)))
        if rest.count("init:") > 1:  # of several tensors at once, as in argmax
            return [Operation("reduce_several", "", 0)]
    return [Operation(o.name, o.kind, pairs, depth) for o in body]


def _trailing(rest: str, rank: int) -> bool:
    """Whether the last axes are reduced."""
    found = re.search(r"dimensions = \[([\d, ]*)\]", rest)
    axes = sorted(int(a) for a in found.group(1).split(",")) if found else []
    return axes == list(range(rank - len(axes), rank))


def _pair_kind(source: Tensor) -> str:
    return f"{'f' if source.dtype.startswith('f') else 'i'}:ss"


def _body(lines: Iterator[str]) -> list[str]:
    """The lines of a nested block."""
    found, depth = [], 0
    for line in lines:
        depth += line.count("{") - line.count("}")
        found.append(line)
        if depth <= 0 and "}" in line:
            break
    return found
