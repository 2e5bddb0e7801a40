"""A machine's rates are found again, measured, written, and read by an estimate."""

import json
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ditto.analysis import USUAL, Machine, Work
from ditto.bench import machine as bench_machine
from ditto.bench.machine import Measured, Probe, fit, measure_machine
from ditto.cli import app
from ditto.cli.exit_codes import ExitCode
from ditto.errors import SetupError
from tests.cli.test_cli import ditto
from tests.documents import check_document
from tests.folders import bert_folder

FAST = Machine(2e-11, 1e-10, 4e-10, 4e-9, 2e-4)


def computed(machine: Machine, seed: int, noise: float = 0.0) -> list[Measured]:
    """Random work, and what it takes a machine."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1e9, 1e8, 1e7, 0, 100])
    works = [Work(*(sizes * rng.uniform(0, 1, 5)).tolist()) for _ in range(7)]
    factors = 1 + noise * rng.uniform(-1, 1, len(works))
    return [
        Measured("", work, work.seconds(machine) * factor)
        for work, factor in zip(works, factors, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_rates_are_found_again(seed: int) -> None:
    found = fit(computed(FAST, seed))
    for name, rate in FAST.as_json().items():
        assert found.as_json()[name] == pytest.approx(rate, rel=1e-6), name


@pytest.mark.parametrize("seed", range(5))
def test_a_rate_that_does_not_show_is_zero_and_none_is_negative(seed: int) -> None:
    found = fit(computed(replace(FAST, byte_read=0.0), seed, noise=0.1))
    assert min(astuple(found)) >= 0
    work = Work(5e8, 5e7, 5e6, 0, 50)
    assert work.seconds(found) == pytest.approx(
        work.seconds(replace(FAST, byte_read=0.0)), rel=0.2
    )


def test_parties_are_measured() -> None:
    probes = (Probe("bert-tiny", 1, 4, {"hidden_size": 64}), Probe("gpt2-tiny", 1, 4))
    measured = measure_machine(lambda _: None, repeat=1, probes=probes)
    assert [each.what for each in measured] == [
        "bert-tiny of width 64, forward, 4 tokens",
        "gpt2-tiny, prefill, 4 tokens",
        "gpt2-tiny, decode, 4 tokens",
    ]
    for each in measured:
        assert 0 < each.seconds < 10
        assert each.work.rounds > 10
        assert each.work.sent > 1000
        assert each.work.read > 1000
    assert fit(measured).round > 0


def test_an_estimate_is_for_the_machine_that_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = bert_folder(tmp_path / "bert"), tmp_path / "machine.json"
    monkeypatch.setattr(
        bench_machine, "measure_machine", lambda *_, **__: computed(FAST, 1)
    )
    shown = CliRunner().invoke(app, ["bench", "machine", "--json", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "1,000 rounds" in shown.output
    document = json.loads(file.read_text())
    check_document("bench machine", document)
    seconds = {}
    for options in ((), ("--machine", str(file))):
        done = ditto("estimate", str(model), "--length", "8", "--json", "-", *options)
        assert done.returncode == 0, done.stderr
        estimated = json.loads(done.stdout)
        check_document("estimate", estimated)
        (plan,) = estimated["plans"].values()
        seconds[options] = plan["computing_seconds"], estimated["machine"]
    (usual, given), (here, measured) = seconds.values()
    assert given == USUAL.as_json()
    assert measured == document["machine"]
    assert 0 < here < usual / 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read as a machine"),
        ("[1]", "multiplication is None"),
        ("[" * 60_000, "cannot be read as a machine"),
        (" " * (1 << 17), "is larger than 65536 bytes"),
        ('{"machine": {"multiplication": 1' + "0" * 400 + "}}", "multiplication is 10"),
        ('{"machine": {"multiplication": "1"}}', "multiplication is '1'"),
        ('{"machine": {"multiplication": true}}', "multiplication is True"),
        ('{"machine": {"multiplication": -1}}', "multiplication is -1"),
        ('{"machine": {"multiplication": NaN}}', "multiplication is nan"),
        ('{"machine": {"multiplication": Infinity}}', "multiplication is inf"),
    ],
)
def test_what_is_no_machine_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(SetupError, match=why):
        Machine.read(file)
    done = ditto("estimate", str(tmp_path / "none"), "--machine", str(file))
    assert done.returncode == ExitCode.SETUP
    assert why in " ".join(done.stderr.split())
