"""Figures in the documents are those of the files that they were measured into."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"
WHAT = {"first token after 32": "first_token", "each further token": "next_token"}

pytestmark = pytest.mark.fast


def result(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(document: Path, first: str) -> Iterator[list[str]]:
    """The rows of the table whose first heading is this."""
    lines = document.read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(f"| {first} |"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def measured(model: str, network: str, profile: str, what: str) -> dict[str, Any]:
    """The row of a whole model at its usual length, alone."""
    (row,) = [
        row
        for row in result(network.lower())["rows"]
        if row["model"] == model and row["profile"] == profile and row["batch"] == 1
        and row["seq"] == (128 if model == "bert-base" else 32)
    ]  # fmt: skip
    return {**row, **row.get(WHAT.get(what, ""), {})}


def test_whole_models() -> None:
    rows = [*table(README, "model")]
    assert len(rows) > 5
    for model, network, profile, what, mb, rounds, seconds, error in rows:
        found = measured(model, network, profile.rstrip("†"), what)
        assert (found["measured_layers"] < found["layers"]) == profile.endswith("†")
        said = (mb, rounds, seconds, error)
        assert said == (
            f"{found['bytes'] / 1e6:.1f}",
            f"{found['rounds']}",
            f"{found['seconds']:.1f}",
            f"{found['mean_abs_error']:.4f}",
        ), (model, network, profile, what)


def test_ordinary_texts() -> None:
    rows = result("ordinary_texts")["rows"]
    least = min(row["cosine"] for row in rows if row["cosine"] is not None)
    said = f"On {len(rows)} ordinary texts"
    text = README.read_text()
    assert said in text
    assert f"the private and the float embedding is {least:.4f}," in text


def test_what_the_forms_of_a_student_cost() -> None:
    found = {
        (row["tokens"], row["activation"], row["attention_weights"]): row
        for row in result("forms")
    }
    kinds = [
        ("gelu", "softmax"),
        ("quad", "softmax"),
        ("quad", "relu"),
        ("quad", "square"),
    ]
    rows = [*table(ROOT / "docs" / "how-to" / "distill.md", "tokens")]
    assert [row[0] for row in rows] == ["32", "128"]
    for tokens, *cells in rows:
        for cell, kind in zip(cells, kinds, strict=True):
            row = found[int(tokens), *kind]
            figures = re.findall(r"[\d.]+", cell)
            assert figures == [f"{row['bytes'] / 1e6:.1f}", f"{row['rounds']}"]


def test_bits_of_protocols() -> None:
    """Rows of the tutorial: what is truncated in which type, in two rounds and one."""
    kinds = {
        "truncate 32 bits by 12": ("truncate", {"from": "fxp32.24", "to": "fxp32.12"}),
        "truncate 64 bits by 18": ("truncate", {"from": "fxp64.36", "to": "fxp64.18"}),
        "upcast 32 to 64 bits": ("upcast", {"from": "fxp32.8", "to": "fxp64.18"}),
    }
    found = result("protocols")
    document = ROOT / "docs" / "tutorials" / "your-own-function.md"
    rows = {row[0]: row[1:3] for row in table(document, "bits per element")}
    for said, (protocol, parameters) in kinds.items():
        bits = [
            f"{row['bits_per_element']:.0f}"
            for variant in ("ours", "ours-one-round")
            for row in found
            if (row["protocol"], row["variant"]) == (protocol, variant)
            and row["parameters"] == parameters
        ]
        assert rows[said] == bits


def test_utility() -> None:
    """Scores and what is lost, of every row of the table."""
    rows = result("utility")["rows"]
    said = [*table(RESULTS / "README.md", "column")]
    modes = {"float": "float", "simulator": "simulate", "three parties": "mpc"}
    model = ""
    for column, row, mode, _, score, lost, _ in said:
        model = {"M": "minilm", "G": "gpt2"}.get(column[:1], model)
        (found,) = [
            each
            for each in rows
            if (each["model"], each["row"], each["mode"])
            == (model, row.strip("`"), modes[mode])
        ]
        digits = 2 if model == "gpt2" else 4
        assert score == f"{found['score']:.{digits}f}"
        if lost:
            assert lost.split()[0] == f"{found['drop_points']:.3f}"
