"""What the doctor says of a machine that is not well."""

import os
from importlib.metadata import PackageNotFoundError, version

import pytest
from typer.testing import CliRunner

from ditto.cli import app, doctor
from ditto.cli.exit_codes import ExitCode
from ditto.frames import Arrays, Json
from ditto.runtime import ProcessTrio, Session
from ditto.sharing import Rank


def crash(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    """As a wheel with a bad instruction would: one process ends in the middle."""
    if session.party.rank == Rank.P1:
        os._exit(139)
    session.party.channel.receive(Rank.P1, size=1, tag=0)
    return {}, {}


def wrong(session: Session, parameters: Json, arrays: Arrays) -> tuple[Json, Arrays]:
    return {"error": 0.5, "allowed": 0.001}, {}


def test_a_missing_package_comes_with_the_command_that_installs_it() -> None:
    good, found, advice = doctor._package("no-such-package", "1.2.3")
    assert (good, found) == (False, "not installed")
    assert advice == "pip install 'no-such-package==1.2.3'"


def test_who_only_asks_is_told_what_parties_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_jax(name: str) -> str:
        if name == "jax":
            raise PackageNotFoundError
        return version(name)

    monkeypatch.setattr(doctor, "version", without_jax)
    done = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "80"})
    assert done.exit_code == ExitCode.SETUP
    assert f"pip install 'jax=={doctor.JAX}'" in done.output
    assert "Whoever only asks a service needs neither" in done.output
    assert "links" not in done.output


def test_another_version_is_not_well() -> None:
    good, found, advice = doctor._package("numpy", "0.0.1")
    assert not good
    assert found != "0.0.1"
    assert "numpy==0.0.1" in advice


def test_a_crash_and_a_wrong_result_are_findings() -> None:
    with ProcessTrio(timeout=10) as trio:
        good, found, advice = doctor._try(trio, wrong, {})
        assert not good
        assert "0.5 (allowed 0.001)" in found
        assert doctor.SPU_WHEEL in advice
        good, found, advice = doctor._try(trio, crash, {})
    assert not good
    assert "bob" in found
    assert doctor.SPU_WHEEL in advice
