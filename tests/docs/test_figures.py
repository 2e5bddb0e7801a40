"""Figures in the documents are those of the files that they were measured into."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ditto.owner.plans import FINER

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"
LANGUAGE = ROOT / "docs" / "how-to" / "language-models.md"
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
    name, accurate, _ = profile.partition(", accurate GeLU")
    gelu = "puma" if name == "puma" else "accurate" if accurate else "quad"
    (row,) = [
        row
        for row in result(network.lower())["rows"]
        if row["model"] == model and row["profile"] == name and row["gelu"] == gelu
        and row["batch"] == 1 and row["seq"] == (128 if model == "bert-base" else 32)
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
    tasks = {"CoLA": "cola", "SST-2": "sst2", "RTE": "rte", "WikiText-2": "wikitext"}
    models = {"MiniLM": "minilm", "MPNet": "mpnet", "GPT-2": "gpt2"}
    model = task = ""
    for column, row, mode, _, score, lost, _ in said:
        model = next((models[name] for name in models if name in column), model)
        task = next((tasks[name] for name in tasks if name in column), task)
        key = (model, task, row.strip("`"), modes[mode])
        (found,) = [
            each
            for each in rows
            if (each["model"], each["task"], each["row"], each["mode"]) == key
        ]
        digits = 2 if task == "wikitext" else 4
        assert score == f"{found['score']:.{digits}f}"
        if lost:
            assert lost.split()[0] == f"{found['drop_points']:.3f}"


def test_a_language_model() -> None:
    found, page = result("smollm2"), LANGUAGE
    rows = [*table(page, "what")]
    assert len(rows) == 2
    for (_, mb, rounds, memory), name in zip(rows, ("prefill", "token"), strict=True):
        assert mb == f"{found[f'{name}_bytes'] / 1e6:.1f}"
        assert rounds == f"{found[f'{name}_rounds']:,.0f}"
        assert memory == f"{found['memory_bytes'] / 1e9:.1f}"
    count, same = found["prompts"], found["greedy_same"]
    text = page.read_text()
    assert f"{count} of 10 prompts were run" in text
    assert f"{same} of {count} are the tokens of the float model" in text
    plans = result("estimate_smollm2_lan")["plans"]
    for name, cost in zip(
        ("first token", "further token"), plans.values(), strict=True
    ):
        assert cost is plans[name]
        assert f"{cost['bytes'] / 1e6:.1f} MB in {cost['rounds']:,.0f}" in text


def test_a_public_prefix() -> None:
    shown = [*table(LANGUAGE, "public tokens")]
    for cells, row in zip(shown, result("public_prefix"), strict=True):
        public, private, *costs = cells
        assert [public, private] == [
            f"{row['public_tokens']}",
            f"{row['private_tokens']}",
        ]
        assert costs == [
            figure
            for cost in (row["first"], row["further"])
            for figure in (
                f"{cost['bytes'] / 1e6:.1f}",
                f"{cost['rounds']:,}",
                f"{cost['seconds']:.1f}",
            )
        ]
        assert row["same"] == row["questions"]


def test_large_models() -> None:
    shown = [*table(LANGUAGE, "model")]
    for cells, row in zip(shown, result("large_models"), strict=True):
        token = row["token"]
        assert cells == [
            row["model"],
            f"{row['prefill']['bytes'] / 1e6:,.0f}",
            f"{token['bytes'] / 1e6:.1f}",
            f"{token['rounds']:,.0f}",
            f"{token['seconds_lan']:.1f}",
            f"{token['seconds_wan']:.0f}",
            f"{row['longest_rtt_ms']:.0f} ms",
            f"{row['memory_bytes'] / 1e9:.0f}",
        ]


def test_text_before_a_token() -> None:
    shown = [*table(LANGUAGE, "cache, tokens")]
    for cells, row in zip(shown, result("contexts"), strict=True):
        assert cells == [
            f"{row['context']}",
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['rounds']:,.0f}",
            f"{row['seconds_lan']:.1f}",
        ]


def test_prompts_of_every_kind() -> None:
    found, text = result("varied_prompts"), LANGUAGE.read_text()
    assert f"{found['prompts']:,} prompts of 32 tokens at most" in text
    assert f"{found['out_of_range']} left their range; " in text
    assert f"{found['silent']} were wrong without a note" in text
    assert f"or one within 0.1 of it, in {found['same_token']}." in text
    assert found["kinds"]["repeat"]["noted"] == found["noted"] == found["out_of_range"]


def test_errors_of_logits() -> None:
    (found, usual), text = result("logit_errors"), LANGUAGE.read_text()
    assert usual["fit_error"] == FINER * found["fit_error"]
    assert f"logits are off by {found['all']:.3f}" in text
    assert f"rounded weights are {found['weights']:.3f}, the same" in text
    parts = f"recasts {found['recasts']:.3f} and functions {found['functions']:.3f}"
    assert parts in text
    assert f"({usual['fit_error']} there" in text
    other = f"it would be {usual['all']:.3f}, for {usual['bytes'] / 1e6:.1f} MB"
    assert other in text


def test_the_install_page_has_the_first_answer() -> None:
    rows = result("first_answer")
    *shown, whole = table(ROOT / "docs" / "how-to" / "install.md", "what is typed")
    assert shown == [[f"`{r['command']}`", f"{r['seconds']:.1f}"] for r in rows]
    assert whole == ["all of it", f"{sum(r['seconds'] for r in rows):.1f}"]


def test_the_install_page_has_the_weights() -> None:
    rows = {row["extra"]: row for row in result("weight")}
    shown = list(table(ROOT / "docs" / "how-to" / "install.md", "who you are"))
    assert {cells[1].strip("`") for cells in shown} == {e or "none" for e in rows}
    for _, extra, *figures in shown:
        row = rows["" if extra == "none" else extra.strip("`")]
        assert figures == [
            f"{row['packages']}",
            f"{row['bytes'] / 1e6:,.0f}",
            f"{row['modules']:,}",
            f"{row['import_bytes'] / 1e6:,.0f}",
        ]
