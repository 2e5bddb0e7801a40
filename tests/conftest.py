"""Which tests are fast, which need the machine for themselves, and what they share."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import settings

from tests.randomness import Draws

settings.register_profile("any machine", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("any machine")

HERE = Path(__file__).parent

COMPILED = {
    "JAX_COMPILATION_CACHE_DIR": str(HERE.parent / ".pytest_cache" / "compiled"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
"""Processes of tests keep what XLA has compiled for each other, and for the next run.
"""
for each, value in COMPILED.items():
    os.environ.setdefault(each, value)

ALONE = (
    "benchmarks/test_bare_links.py*",
    "benchmarks/test_chaos.py*",
    "benchmarks/test_commands.py::test_a_command_that_is_ended*",
    "benchmarks/test_network.py*",
    "cli/test_cli.py::test_a_command_that_is_ended*",
    "cli/test_finetune.py::test_ctrl_c*",
    "cli/test_status.py::test_watching_ends*",
    "client/test_remote_batching.py*",
    "compiler/test_scale.py*",
    "docs/*",
    "e2e/test_interrupt.py*",
    "e2e/test_links.py*",
    "e2e/test_lost_peer.py*",
    "e2e/test_rolling_upgrade.py*",
    "e2e/test_service.py*",
    "e2e/test_what_a_party_sees.py*",
    "runtime/test_links.py*",
    "runtime/test_mailbox.py*",
    "runtime/test_scripts.py*",
    "api/test_interrupted.py*",
    "party/*links*",
    "party/server/test_differences.py*",
    "party/server/test_service.py*",
    "party/server/test_trios.py*",
    "party/test_refusals.py::test_a_function_that_does_not_exist_is_refused",
    "party/test_retry.py::test_parties_that_are_gone_are_started_anew",
    "test_house.py::test_the_client_is_light",
)
"""Tests that look at a clock or send signals to processes."""

SLOW = (
    *ALONE,
    "analysis/test_audits.py*",
    "analysis/test_cost.py::test_a_layer*",
    "analysis/test_cost.py::test_processes*",
    "audit/test_parts.py::test_whatever*",
    "audit/test_proof.py::test_a_wrong*",
    "audit/test_recasts.py::test_every_message*",
    "audit/test_runs.py::test_processes*",
    "audit/test_runs.py::test_whatever*",
    "audit/test_zero_knowledge.py*",
    "analysis/test_cost.py::test_the_cost_table*",
    "bench/test_machine.py::test_an_estimate*",
    "bench/test_machine.py::test_parties*",
    "bench/test_machine.py::test_what_is*",
    "benchmarks/test_audit.py*",
    "benchmarks/test_commands.py*",
    "benchmarks/test_language_costs.py*",
    "benchmarks/test_mpcformer.py*",
    "benchmarks/test_ordinary_texts.py*",
    "benchmarks/test_safety.py::test_the_command*",
    "benchmarks/test_safety.py::test_a_missing*",
    "benchmarks/test_safety.py::test_what_leaves*",
    "benchmarks/test_simulation.py*",
    "benchmarks/test_smollm2.py*",
    "benchmarks/test_utility.py*",
    "cli/test_cli.py::test_doctor*",
    "cli/test_demo.py*",
    "cli/test_export.py*",
    "cli/test_finetune.py*",
    "cli/test_gateway.py::test_who*",
    "cli/test_models.py*",
    "cli/test_plan.py*",
    "compiler/test_bounds.py::test_no_input*",
    "compiler/test_conformance.py*",
    "compiler/test_pipeline.py::test_fitted*",
    "compiler/test_pipeline.py::test_masked*",
    "compiler/test_pipeline.py::test_the_paper*",
    "compiler/test_ranges.py*",
    "compiler/test_traps.py::test_right*",
    "conformance/*links*",
    "conformance/test_exact_views.py*",
    "conformance/test_rank.py::test_all*",
    "conformance/test_redrawn.py::test_every*",
    "conformance/test_registry.py::test_large*",
    "conformance/test_views.py*",
    "e2e/*",
    "evaluation/test_comparison.py*",
    "evaluation/test_evaluate.py*",
    "gateway/test_sdks.py*",
    "api/*",
    "models/test_distances.py*",
    "models/test_formats.py::test_the_printed*",
    "models/test_parity.py*",
    "models/test_prefix.py*",
    "models/test_preparation.py*",
    "models/test_secure.py*",
    "models/test_sentence.py*",
    "mutation/*",
    "owner/*",
    "party/server/test_audit.py*",
    "party/server/test_lots.py*",
    "plan/test_files.py::test_1000*[[]?[]]",
    "plan/test_files.py::test_1000*[[]??[]]",
    "plan/test_files.py::test_the_digest*",
    "runtime/test_key_folders.py*",
    "simulation/test_every_value.py*",
    "simulation/test_function.py*",
    "simulation/test_precision.py*",
    "simulation/test_simulator.py::test_parties*",
    "test_tiny.py*",
    "training/test_distill.py*",
    "training/test_finetune.py*",
    "training/test_loop.py*",
    "training/test_parity.py*",
    "training/test_stages.py*",
)
"""All other tests are fast: together they answer in three minutes."""


@pytest.fixture(scope="session")
def folder_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all processes that run tests beside each other."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _cache_of_this_run(folder_of_this_run: Path) -> Iterator[None]:
    """Tests keep plans for each other, and leave those of whoever runs them alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DITTO_CACHE", str(folder_of_this_run / "kept"))
        yield


DRAWS = pytest.StashKey[Draws]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="Of what parties draw.")


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    config.stash[DRAWS] = Draws(config.getoption("--seed"))
    config.stash[DRAWS].begin(patch)


def pytest_report_header(config: pytest.Config) -> str:
    return f"parties draw with --seed {config.getoption('--seed')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    draws = item.config.stash[DRAWS]
    with draws.of(item.nodeid):
        if isinstance(item, pytest.Function):
            draws.restart(item.module)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Iterator[None]:
    """One that tests share draws what it draws, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    param = getattr(request, "param", None)
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{param!r}]"
    with request.config.stash[DRAWS].of(name):
        return (yield)


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = f"{item.path.relative_to(HERE)}{item.nodeid[item.nodeid.find('::') :]}"
        if matches(name, ALONE):
            item.add_marker("alone")
        if not matches(name, SLOW):
            item.add_marker("fast")
