"""``benchmarks/safety.py``: what it asks, how it searches, how it counts."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.range_check.counts import Row, by_category, counts, read_rows
from benchmarks.range_check.inputs import (
    ADVERSARIAL,
    Case,
    Form,
    categories,
    ordinary_cases,
    varied_cases,
)
from benchmarks.range_check.search import CHANGES, Climb, climbs
from benchmarks.range_check.subject import Asked, Rows, Subject
from ditto.client import Tokenizer
from ditto.client.tokens import Encoded
from ditto.compiler.bounds import choice
from ditto.models import load_model
from ditto.owner.samples import TextSamples
from ditto.simulation import Headroom
from tests.folders import WORDS, bert_folder, gpt2_folder, write_model

ROOT = Path(__file__).parents[2]


def row(**changes: Any) -> Row:
    plain = Row(
        "bert", "short", 0, ordinary=False, tokens=3, length=8, pair=False,
        flagged=False, inside=True, difference=0.01, wrong=False, bits=1.0,
        place="top recast",
    )  # fmt: skip
    return replace(plain, **changes)


FLAGGED = Asked(flagged=True, right=True)
WRONG = Asked(flagged=False, right=False)


@pytest.mark.parametrize(
    ("rows", "figures"),
    [
        ([row()], {}),
        ([row(wrong=True)], {"wrong_unflagged": 1}),
        ([row().asked(WRONG)], {"wrong_unflagged": 1, "mpc_same_verdict": 1}),
        ([row(wrong=True, flagged=True, inside=False)], {"flagged": 1}),
        ([row(flagged=True)], {"flagged": 1, "false_alarms": 1}),
        (
            [row(flagged=True, inside=False).asked(FLAGGED)],
            {"flagged": 1, "retried_right": 1, "mpc_same_verdict": 1},
        ),
        (
            [row(flagged=True, inside=False).asked(replace(FLAGGED, right=False))],
            {"flagged": 1, "mpc_same_verdict": 1},
        ),
        (
            [row().asked(FLAGGED)],
            {"flagged": 1, "false_alarms": 1, "retried_right": 1},
        ),
        ([row(ordinary=True)], {"inputs": 0, "ordinary": 1}),
        (
            [row(ordinary=True, flagged=True, inside=False)],
            {"inputs": 0, "ordinary": 1, "ordinary_flagged": 1},
        ),
    ],
)
def test_what_is_counted(rows: list[Row], figures: dict[str, int]) -> None:
    asked = sum(r.parties_flagged is not None for r in rows)
    nothing = dict.fromkeys(counts([]), 0)
    assert counts(rows) == {**nothing, "inputs": 1, "mpc_checked": asked, **figures}


def test_the_table_adds_up() -> None:
    rows = [row(flagged=True), row(number=1), row(category="long", wrong=True)]
    others = [row(model="gpt2"), row(model="gpt2", number=1)]
    lines = {line[0]: line[1:] for line in by_category("bert", rows + others).rows}
    assert lines["short"] == ["2", "1", "0", "1", "0", "0", "0"]
    assert lines["long"] == ["1", "0", "1", "0", "0", "0", "0"]
    assert lines["all"] == ["3", "1", "1", "1", "0", "0", "0"]


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Form:
    folder = bert_folder(tmp_path_factory.mktemp("bert"))
    return Form(Tokenizer.load(folder), (8, 32), 30)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few lines in the form of GLUE and WikiText."""
    folder = tmp_path_factory.mktemp("data")
    columns = {
        "cola": "sentence", "sst2": "sentence", "mrpc": "sentence1\tsentence2",
        "rte": "sentence1\tsentence2", "qnli": "question\tsentence",
    }  # fmt: skip
    for name, heading in columns.items():
        label = "entailment" if name in ("rte", "qnli") else "1"
        pairs = heading.count("\t") + 1
        lines = ["\t".join([f"the cat {k} sat ."] * pairs) for k in range(6)]
        table = [f"{heading}\tlabel", *(f"{line}\t{label}" for line in lines)]
        (folder / name).mkdir()
        (folder / name / "dev.tsv").write_text("\n".join(table) + "\n")
    (folder / "wikitext").mkdir()
    for part in ("valid", "test"):
        text = "\n".join(f"the old cat {k} sat . " * 20 for k in range(16))
        (folder / "wikitext" / f"wt2.{part}.tokens.txt").write_text(text)
    return folder


def test_inputs_are_of_all_categories_and_fit(form: Form, data: Path) -> None:
    cases = varied_cases(form, data, 6)
    asked = {case.category for case in cases}
    assert asked == set(categories(data)) - {ADVERSARIAL}
    assert {"pairs", "sentences", "long", "scripts", "random"} <= asked
    assert cases == varied_cases(form, data, 6)
    assert len({(case.category, case.number) for case in cases}) == len(cases)
    for name in asked:
        assert sum(case.category == name for case in cases) >= 5, name
    assert all(0 < len(c.row.ids) <= min(c.length, 30) for c in cases)
    assert {case.length for case in cases} == {8, 32}
    assert all(c.pair == (c.category == "pairs") for c in cases)
    single = [case for case in cases if case.category == "single"]
    assert all(len(case.row.ids) == 3 for case in single)
    repeated = [case.row.ids[1:-1] for case in cases if case.category == "repeated"]
    assert any(len(ids) > 3 and len(set(ids)) == 1 for ids in repeated)


def test_without_files_there_are_still_inputs(form: Form) -> None:
    names = {case.category for case in varied_cases(form, None, 2)}
    assert names == set(categories(None)) - {ADVERSARIAL}
    assert not names & {"pairs", "sentences", "long"}


def test_ordinary_texts_stand_alone_or_fill_their_length(
    form: Form, data: Path
) -> None:
    cases = ordinary_cases(form, data, 16)
    assert {case.category for case in cases} == {
        f"{kind}, 32" for kind in ("wikitext", "news", "questions", "reviews")
    }
    assert all(case.ordinary for case in cases)
    news = [len(case.row.ids) for case in cases if case.category == "news, 32"]
    assert news[1::2] == [30] * len(news[1::2])
    assert max(news[::2]) < 12


def test_rows_are_asked_as_they_are(tmp_path: Path) -> None:
    rows = Rows.load(bert_folder(tmp_path / "bert"))
    assert rows.encode("2 7 7 3") == Encoded([2, 7, 7, 3], [0, 0, 0, 0])
    assert rows.encode("2 9 3", "0 1 1") == Encoded([2, 9, 3], [0, 1, 1])


def slope(rows: Sequence[Encoded]) -> list[list[Headroom]]:
    """Two places: the first is left by large tokens, the second by no row."""
    found = []
    for row in rows:
        assert len(row.ids) <= 8
        values = ((float(max(row.ids)), len(WORDS) - 1.5), (len(row.ids), 256.0))
        found.append(
            [
                Headroom(k, "recast", "", -1.0, value, -limit, limit)
                for k, (value, limit) in enumerate(values)
            ]
        )
    return found


def ticks() -> Callable[[], float]:
    """A clock that goes on by a second at each look."""
    ticking = count()
    return lambda: float(next(ticking))


def searched(form: Form, seconds: float) -> list[Climb]:
    return list(climbs(form, slope, 8, seconds, ticks()))


def test_a_climb_leads_out_of_a_range(form: Form) -> None:
    ends = searched(form, 600)
    assert min(end.bits for end in ends) <= 0
    assert any(end.bits > 0 for end in ends), "the second place cannot be left"
    assert all(3 <= len(end.row.ids) <= 8 for end in ends)
    assert ends == searched(form, 600)


def test_a_search_ends_in_time(form: Form) -> None:
    few = searched(form, 40)
    assert sum(climb.tried for climb in few) <= 40 * CHANGES
    assert searched(form, 0) == []


def short_bert(path: Path) -> Path:
    """A BERT of 32 positions: few lengths, so few plans; its last word goes far."""
    model = load_model(bert_folder(path, layers=1))
    embeddings = model.params["embeddings"]
    embeddings["position"] = embeddings["position"][:32]
    embeddings["word"] = embeddings["word"].copy()
    embeddings["word"][-1] *= 2.5
    write_model(path, model.with_config(max_position_embeddings=32))
    return path


def test_what_leaves_a_range_is_flagged_by_simulator_and_parties_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges of two texts, without a margin and without proofs, and a row that was
    searched for: it is asked again with wide ranges, and right."""
    monkeypatch.setattr(TextSamples, "rows", lambda *_: 2)
    monkeypatch.setattr(choice, "MOST_BITS", -1)
    monkeypatch.setattr(choice, "_MOST_ROOM", 1.0)
    subject = Subject("bert", short_bert(tmp_path / "bert"), margin=1.0)
    try:
        ends = climbs(subject.form, subject.probe(8), 8, 12, ticks())
        worst = min(ends, key=lambda climb: climb.bits)
        assert worst.bits < -0.5  # far enough that every run is wrong, so flagged
        case = Case(ADVERSARIAL, 0, worst.row, 8)
        outcome = subject.simulate(case, seed=0)
        assert not outcome.inside
        assert outcome.flagged
        assert subject.ask(case) == FLAGGED
        fine = Case("short", 0, subject.form.between([8, 9]), 8)
        assert subject.simulate(fine, seed=0).inside
        assert subject.ask(fine) == Asked(flagged=False, right=True)
    finally:
        subject.close()


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/safety.py", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def test_the_command_measures_two_models_and_resumes(tmp_path: Path) -> None:
    models = [
        "--minilm", short_bert(tmp_path / "bert"),
        "--gpt2", gpt2_folder(tmp_path / "gpt2", layers=1, positions=32),
    ]  # fmt: skip
    out, kept = tmp_path / "safety.json", tmp_path / "rows.jsonl"
    options = [*models, "--limit", 16, "--mpc", 4, "--search", 0, "--json", out]
    options += ["--rows", kept]
    done = command(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(out.read_text())
    assert found["command"].startswith("python benchmarks/safety.py --minilm bert")
    assert found["inputs"] == 16
    assert found["ordinary"] == 8
    assert found["wrong_unflagged"] == found["false_alarms"] == 0
    assert found["mpc_checked"] == found["mpc_same_verdict"] >= 4
    assert found["retried_right"] == found["flagged"]
    rows = read_rows(kept)
    assert {r.model for r in rows} == {"minilm", "gpt2"}
    asked = {r.category for r in rows if not r.ordinary}
    assert asked == set(categories(None)) - {ADVERSARIAL}
    assert all(r.difference is not None for r in rows)
    of_models = found["models"].values()
    categories_of_all = [c for m in of_models for c in m["categories"].values()]
    assert sum(category["inputs"] for category in categories_of_all) == len(rows)
    again = command(*options)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "of" not in again.stderr, "nothing was left to do"
    assert json.loads(out.read_text()) == found


def test_a_missing_model_ends_in_a_sentence(tmp_path: Path) -> None:
    done = command("--minilm", tmp_path / "none", "--gpt2", tmp_path)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "none") in done.stderr
