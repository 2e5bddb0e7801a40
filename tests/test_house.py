"""What holds the house up: what imports what, and who can combine shares."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from ditto.steps import STEPS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ditto"
FOLDERS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
LONGEST = 500
COMBINING = {
    "combine",
    "combine_bits",
    "open_outputs",
    "add_summands",
    "reveal",
}
"""Functions that turn shares into what they are shares of."""


def module_name(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"), str(file))


def imported_by(file: Path) -> set[str]:
    """All that a file imports, inside functions and for type checkers as well.

    A name imported from a package may be a module of it, so both are here.
    """
    modules: set[str] = set()
    for node in ast.walk(tree_of(file)):
        match node:
            case ast.Import(names):
                modules |= {each.name for each in names}
            case ast.ImportFrom(str(module), names, 0):
                modules |= {module} | {f"{module}.{each.name}" for each in names}
            case ast.ImportFrom():
                raise AssertionError(f"{file}: a relative import")
    return modules


IMPORTS = {module_name(file): imported_by(file) for file in SOURCE.rglob("*.py")}


def reached_from(start: str) -> set[str]:
    """Every module of ours that an import of a package can lead to."""
    waiting = [name for name in IMPORTS if f"{name}.".startswith(f"{start}.")]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in IMPORTS and name not in reached:
            reached.add(name)
            waiting += IMPORTS[name]
    return reached


def within(modules: set[str], folder: str) -> set[str]:
    return {name for name in modules if f"{name}.".startswith(f"ditto.{folder}.")}


# Size and direction


def test_no_file_is_long() -> None:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    lengths = {str(file): len(file.read_text("utf-8").splitlines()) for file in files}
    assert {file: n for file, n in lengths.items() if n > LONGEST} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_circle_inside_a_folder(folder: str) -> None:
    inside = within(set(IMPORTS), folder)
    imports = {name: (IMPORTS[name] & inside) - {name} for name in inside}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))


def step_name_uses(tree: ast.Module) -> Iterator[int]:
    """Lines that compare the name of a step's kind, or that match on it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, _, others):
                if any(is_step_name(each) for each in (left, *others)):
                    yield node.lineno
            case ast.Match(subject) if is_step_name(subject):
                yield node.lineno
            case ast.Subscript(ast.Name("STEPS")):
                yield node.lineno


def is_step_name(node: ast.expr) -> bool:
    """Whether it reads ``x.kind.name`` or ``kind.name``."""
    match node:
        case ast.Attribute(ast.Attribute(attr="kind") | ast.Name("kind"), "name"):
            return True
        case ast.NamedExpr(_, value):
            return is_step_name(value)
        case ast.Tuple(elements) | ast.List(elements) | ast.Set(elements):
            return any(is_step_name(each) for each in elements)
    return False


def test_only_steps_and_plans_know_steps_by_name() -> None:
    uses = [
        f"{file.relative_to(SOURCE)}:{line}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.relative_to(SOURCE).parts[0] not in ("steps", "plan")
        for line in step_name_uses(tree_of(file))
    ]
    assert uses == []


def test_names_of_steps_are_found_where_they_are_compared() -> None:
    for code in (
        "x = step.kind.name == 'einsum'",
        "x = kind.name in NAMES",
        "match step.kind.name:\n    case 'einsum': pass",
        "x = (name := step.kind.name) != 'einsum'",
        "x = STEPS['einsum']",
    ):
        assert list(step_name_uses(ast.parse(code))) == [1], code
    assert list(step_name_uses(ast.parse("x = f'{step.kind.name}'"))) == []


def test_kinds_of_steps_stand_in_their_folder() -> None:
    assert {kind.__module__.rpartition(".")[0] for kind in STEPS.values()} == {
        "ditto.steps"
    }


# What an import loads


def loaded_by(module: str) -> tuple[set[str], float]:
    """The modules that an import loads in a new process, and seconds of CPU.

    With one thread of OpenBLAS: the others start by spinning, which is no work.
    """
    code = (
        "import json, sys, time\n"
        "started = time.process_time()\n"
        f"import {module}\n"
        "seconds = time.process_time() - started\n"
        "print(json.dumps([sorted(sys.modules), seconds]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    modules, seconds = json.loads(done.stdout)
    return set(modules), float(seconds)


def test_the_client_is_light() -> None:
    modules, seconds = loaded_by("ditto.client")
    assert not {"jax", "spu", "ditto.compiler", "ditto.party"} & modules
    again = [loaded_by("ditto.client")[1] for _ in range(2)]
    assert min(seconds, *again) < 0.3


def test_a_client_of_a_deployment_needs_neither_jax_nor_spu() -> None:
    modules, _ = loaded_by("ditto.client.remote_client")
    assert "grpc" in modules
    assert (
        not {"jax", "spu", "ditto.compiler", "ditto.party", "ditto.runtime"} & modules
    )


def test_a_gateway_is_a_client() -> None:
    """A machine that only asks has no jax, no spu, and nothing of owner or party."""
    modules, _ = loaded_by("ditto.gateway.server")
    assert "uvicorn" in modules
    assert not {"jax", "spu", "ditto.compiler", "ditto.party", "ditto.owner"} & modules
    assert within(reached_from("ditto.gateway"), "api") == set()


def test_a_deployment_is_asked_where_neither_is_installed(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib', 'spu', 'torch', 'ml_dtypes'):\n"
        "    sys.modules[name] = None\n"
        "from ditto.cli import main\n"
        "main()"
    )
    asked = ["--deployment", str(tmp_path / "d.toml"), "--as", str(tmp_path)]
    for command in (
        ["run", "m:1", "--text", "x"],
        ["generate", "m:1", "--prompt", "x"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command, *asked],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 4, done.stderr
        assert "d.toml cannot be read" in done.stderr


ABSENT_AT_A_PARTY = ("client", "owner", "compiler", "simulation", "inference")


def test_a_party_loads_no_compiler_and_no_client() -> None:
    modules, _ = loaded_by("ditto.party")
    for folder in ABSENT_AT_A_PARTY:
        assert within(modules, folder) == set()


def test_a_plan_is_read_without_jax() -> None:
    modules, _ = loaded_by("ditto.plan")
    assert not {"jax", "spu"} & modules


# A party has no code path to reconstruction


def test_a_party_cannot_reach_the_client() -> None:
    """Whatever is imported on the way, and whenever."""
    reached = reached_from("ditto.party")
    assert "ditto.runtime.executor" in reached
    for folder in ABSENT_AT_A_PARTY:
        assert within(reached, folder) == set()


@pytest.mark.parametrize("folder", ["party", "wire", "runtime", "steps"])
def test_a_party_has_no_code_that_combines_shares(folder: str) -> None:
    for file in sorted((SOURCE / folder).rglob("*.py")):
        for node in ast.walk(tree_of(file)):
            match node:
                case ast.Name(name) | ast.Attribute(attr=name) | ast.alias(name):
                    assert name not in COMBINING, f"{file}: {name}"
