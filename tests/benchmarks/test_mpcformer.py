"""The MPCFormer baseline: its count by hand, and what happens when things go wrong.

Tests that run CrypTen need its environment, which is too large to make for a test:
``python -c "from benchmarks.mpcformer import make_environment as m; m(None, print)"``
makes it in the default place; DITTO_CRYPTEN names another.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import mpcformer
from benchmarks.mpcformer import (
    EncoderShape,
    bench_mpcformer,
    default_environment,
    make_environment,
    run_parties,
    spent,
)
from ditto.errors import SetupError

TINY = EncoderShape(layers=1, width=16, heads=2, inner=64)
SEQ = 8
WORD = 8
"""Bytes of an element of the ring."""
HEADERS = 12 * 48
"""What gloo adds for each tensor that a party sends."""
INVERSE_ROOT = 1.5e-3
"""The relative error of CrypTen's inverse root near 1, after its 3 steps of Newton."""


@pytest.fixture(scope="module")
def environment() -> Path:
    folder = Path(os.environ.get("DITTO_CRYPTEN") or default_environment())
    if not (folder / "bin" / "python").exists():
        pytest.skip(f"CrypTen's environment is not at {folder}; see this file's head")
    return folder


def fake_environment(folder: Path, script: str) -> Path:
    """An environment whose Python is a shell script; $3 holds the settings."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return folder


def hand_count(shape: EncoderShape, seq: int) -> tuple[int, int, int]:
    """Elements opened, tensors opened and rounds of a layer with 2ReLU.

    A product opens both operands less their masks, a square its only one. A sign adds
    the two shares as 64-bit words, with an AND and then six of twice the words, and
    turns one bit of the sum back. Batch 1.
    """
    rows, width, inner = seq, shape.width, shape.inner
    tokens, scores, sums = rows * width, shape.heads * rows**2, shape.heads * rows

    def product(*elements: int) -> tuple[int, int, int]:
        return sum(elements), 2, 1

    def square(elements: int) -> tuple[int, int, int]:
        return elements, 1, 1

    def sign(elements: int) -> tuple[int, int, int]:
        return (2 + 6 * 4 + 1) * elements, (1 + 6) * 2 + 1, 1 + 6 + 1

    def exponential(elements: int) -> list[tuple[int, int, int]]:
        return [square(elements)] * 8

    linear = product(tokens, width**2)
    attention = [
        *[linear] * 3,
        product(tokens, tokens),
        *(sign(scores), product(scores, scores)),
        *(sign(sums), product(sums, sums), product(sums, sums)),  # of the reciprocal
        *exponential(sums),
        *[square(sums), product(sums, sums)] * 10,
        product(scores, sums),
        product(scores, tokens),
        linear,
    ]
    norm = [
        square(tokens),
        *exponential(rows),
        *[square(rows), product(rows, rows), product(rows, rows)] * 3,
        product(tokens, rows),
        product(tokens, width),
    ]
    feed_forward = [
        product(tokens, width * inner),
        square(rows * inner),
        product(rows * inner, inner * width),
    ]
    steps = [*attention, *norm, *feed_forward, *norm]
    elements, tensors, rounds = (sum(column) for column in zip(*steps, strict=True))
    return elements, tensors, rounds


def test_a_product_sends_both_operands(environment: Path) -> None:
    rows, inner, columns = 64, 128, 256
    replies = run_parties(
        environment, {"job": "matmul", "shape": [rows, inner, columns]}
    )
    found = spent(replies)
    opened = (rows * inner + inner * columns) * WORD
    assert found["bytes"] == 2 * opened  # each party sends its shares to the other
    assert found["rounds"] == 1
    sent = [reply["runs"][0]["socket_bytes"] for reply in replies]
    for party in sent:
        assert abs(party - opened - 2 * HEADERS) <= HEADERS  # the kernel agrees
    assert max(reply["max_abs_error"] for reply in replies) < 1e-3


def test_2relu_costs_what_its_steps_do(environment: Path) -> None:
    said: list[str] = []
    found = bench_mpcformer(
        TINY,
        seq=SEQ,
        softmax="2relu",
        environment=environment,
        repeat=2,
        progress=said.append,
    )
    elements, tensors, rounds = hand_count(TINY, SEQ)
    assert found["bytes"] == 2 * elements * WORD
    assert found["rounds"] == rounds
    sent = 2 * (elements * WORD + tensors * HEADERS)
    assert abs(found["socket_bytes"] - sent) <= 2 * HEADERS
    assert found["mean_abs_error"] < 2 * INVERSE_ROOT * found["mean_abs_value"]
    assert found["profile"] == "mpcformer quad+2relu"
    assert found["setting"] == "two parties, trusted first party deals"
    assert found["versions"]["crypten"] == "0.4.1"
    assert len(found["cpu_seconds"]) == 2
    assert found["seconds"] > 0
    assert 100 < found["peak_rss_mb"] < 2000
    assert "mpcformer quad+2relu: warming up, layer 1" in said


def test_softmax_costs_more_and_is_as_near(environment: Path) -> None:
    found = bench_mpcformer(TINY, seq=SEQ, softmax="softmax", environment=environment)
    elements, _, rounds = hand_count(TINY, SEQ)
    assert found["bytes"] > 2 * elements * WORD
    assert found["rounds"] > rounds
    most = found["bytes"] + 2 * (2 * found["rounds"] + 1) * HEADERS
    assert found["bytes"] < found["socket_bytes"] <= most
    assert found["mean_abs_error"] < 2 * INVERSE_ROOT * found["mean_abs_value"]


def test_an_address_of_nobody_is_said(environment: Path) -> None:
    with pytest.raises(SetupError, match="No network interface has the address"):
        run_parties(
            environment,
            {"job": "matmul", "shape": [1, 1, 1]},
            addresses=("192.0.2.1", "192.0.2.2"),
        )


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"layers": 0}, "layers is at least 1, not 0"),
        ({"width": 10, "heads": 4}, "width of 10 does not divide into 4 heads"),
    ],
)
def test_shapes_that_cannot_be(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        EncoderShape(**sizes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"softmax": "2quad"}, "'2quad' is no softmax of MPCFormer here"),
        ({"seq": 0}, "seq is at least 1, not 0"),
        ({"repeat": 0}, "repeat is at least 1, not 0"),
        ({"threads": 0}, "threads is at least 1, not 0"),
        ({"addresses": ("10.0.0.1",)}, "addresses are two, not 1"),
        ({"addresses": ("10.0.0.1", "::1")}, "'::1' is not an IPv4 address"),
        ({"prefixes": ((), (), ())}, "prefixes are two, not 3"),
        ({"interfaces": ()}, "interfaces are two, not 0"),
    ],
)
def test_arguments_that_cannot_be(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    environment = fake_environment(tmp_path / "environment", "exit 0")
    given = {"seq": SEQ, "softmax": "2relu", "environment": environment}
    with pytest.raises(SetupError, match=words):
        bench_mpcformer(TINY, **given | arguments)


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(SetupError, match=r"has no bin/python\. Remove it"):
        bench_mpcformer(TINY, seq=SEQ, softmax="2relu", environment=tmp_path)
    with pytest.raises(SetupError, match=r"has no bin/python\. Remove the folder"):
        run_parties(tmp_path, {"job": "matmul"})
    assert (tmp_path / "letter").read_text() == "dear"


def test_an_environment_that_fails_half_way_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that makes it makes one whose pip fails."""
    maker = tmp_path / "maker"
    maker.write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\n'
        "printf '#!/bin/sh\\necho no such package >&2; exit 7\\n' > \"$3/bin/python\"\n"
        'chmod +x "$3/bin/python"\n'
    )
    maker.chmod(0o755)
    monkeypatch.setattr(mpcformer.sys, "executable", str(maker))
    said: list[str] = []
    folder = tmp_path / "cache" / "crypten"
    with pytest.raises(SetupError, match=r"code 7:\nno such package"):
        make_environment(folder, said.append)
    assert not folder.exists()
    assert said == [
        f"making an environment for CrypTen in {folder}",
        "installing torch==2.13.0",
    ]


def test_words_between_are_progress_and_the_last_is_the_result(tmp_path: Path) -> None:
    environment = fake_environment(
        tmp_path,
        'echo "a library speaks"\necho \'{"progress": "layer 1"}\'\n'
        'case "$3" in *\'"rank": 0\'*) echo \'{"result": {"of": 0}}\';;'
        ' *) echo \'{"result": {"of": 1}}\';; esac',
    )
    said: list[str] = []
    found = run_parties(environment, {"job": "none"}, progress=said.append)
    assert found == [{"of": 0}, {"of": 1}]
    assert said == ["layer 1", "layer 1"]


def test_prefixes_stand_before_the_command(tmp_path: Path) -> None:
    environment = fake_environment(
        tmp_path, 'echo "{\\"result\\": {\\"where\\": \\"$WHERE\\"}}"'
    )
    found = run_parties(
        environment,
        {"job": "none"},
        prefixes=(["env", "WHERE=here"], ["env", "WHERE=there"]),
    )
    assert found == [{"where": "here"}, {"where": "there"}]
    with pytest.raises(SetupError, match=r"party 1 could not be started: .*no-such"):
        run_parties(environment, {"job": "none"}, prefixes=((), ["no-such-command"]))


def test_when_one_party_dies_the_other_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    environment = fake_environment(
        tmp_path / "environment",
        f'case "$3" in *\'"rank": 0\'*) echo $$ > {pid}; exec sleep 60;; esac\n'
        f"while [ ! -s {pid} ]; do sleep 0.05; done\n"
        "echo the line is dead >&2; exit 3",
    )
    started = time.monotonic()
    with pytest.raises(SetupError, match=r"party 1 ended with code 3:\nthe line is de"):
        run_parties(environment, {"job": "none"})
    assert time.monotonic() - started < 30
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_parties_that_do_not_finish_are_ended(tmp_path: Path) -> None:
    environment = fake_environment(tmp_path, "exec sleep 60")
    with pytest.raises(SetupError, match=r"did not finish within 0\.3 seconds"):
        run_parties(environment, {"job": "none"}, timeout=0.3)


def test_a_party_without_a_result_is_said(tmp_path: Path) -> None:
    environment = fake_environment(tmp_path, "echo '[1]'")
    with pytest.raises(SetupError, match="party 0 ended without a result"):
        run_parties(environment, {"job": "none"})


def test_a_half_made_environment_has_its_way_out(tmp_path: Path) -> None:
    environment = fake_environment(
        tmp_path, "echo ModuleNotFoundError: No module named torch >&2; exit 1"
    )
    with pytest.raises(SetupError, match="Remove the environment's folder"):
        run_parties(environment, {"job": "none"})
