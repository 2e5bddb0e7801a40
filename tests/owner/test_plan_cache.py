"""Plans on disk: found again, never trusted, never in the way."""

import json
import os
import stat
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from ditto.compiler import PROFILES
from ditto.errors import CacheWarning, SetupError
from ditto.files import cache_folder
from ditto.models import Model, random_model
from ditto.models.computation import Computation, Phase
from ditto.models.sentence import Pooling, SentenceModules
from ditto.owner.plan_cache import USUAL_LIMIT, Label, PlanCache, cache_limit
from ditto.owner.plan_key import model_digest, plan_key
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.plan import Plan
from tests.documents import check_document

SHORT, LONG = (Computation(Phase.FORWARD, 1, length) for length in (4, 8))
LABEL = Label("tiny", "ditto", "forward")
KEY = "a" * 64


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model(
        "bert-tiny",
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=32,
        seed=3,
    )


def plans(model: Model, folder: Path | None, profile: str = "ditto") -> Plans:
    cache = None if folder is None else PlanCache(folder)
    return Plans(model, PROFILES[profile], RandomSamples(32), rows=2, cache=cache)


@pytest.fixture(scope="module")
def plan(model: Model) -> Plan:
    return plans(model, None).plan(SHORT)


def stages(of: Plans, computation: Computation) -> tuple[Plan, list[str]]:
    seen: list[str] = []
    return of.plan(computation, seen.append), seen


def test_a_plan_is_made_once_and_read_afterwards(
    model: Model, plan: Plan, tmp_path: Path
) -> None:
    made, seen = stages(plans(model, tmp_path), SHORT)
    assert "compiling" in seen
    read, seen = stages(plans(model, tmp_path), SHORT)
    assert seen == ["looking for the plan in the cache"]
    assert read.digest == made.digest == plan.digest
    (entry,) = PlanCache(tmp_path).entries()
    assert entry.label == Label("model", "ditto", "forward, 4 tokens")


def test_a_plan_that_takes_the_shares_of_another_is_another(
    model: Model, tmp_path: Path
) -> None:
    both = plans(model, tmp_path)
    first, second = both.plan(LONG), both.plan(SHORT)
    alone = plans(model, tmp_path)
    _, seen = stages(alone, SHORT)
    assert "compiling" in seen  # not the one that was made after another
    again = plans(model, tmp_path)
    assert stages(again, LONG)[0].digest == first.digest
    plan, seen = stages(again, SHORT)
    assert plan.digest == second.digest
    assert "compiling" not in seen


def test_the_key_tells_apart_all_that_a_plan_depends_on(
    model: Model, plan: Plan
) -> None:
    source = plans(model, None)
    batches = [source._batch(SHORT, k) for k in range(2)]
    digest, profile = model_digest(model), PROFILES["ditto"]
    changed = jax.tree.map(lambda x: x, model.params)
    leaves, structure = jax.tree_util.tree_flatten(changed)
    leaves[3] = leaves[3] + 1e-6
    other = replace(model, params=jax.tree_util.tree_unflatten(structure, leaves))
    published = {**model.published, "layer_norm_eps": 1e-6}
    first = replace(model, sentence=SentenceModules(Pooling.CLS))
    keys = {
        plan_key(digest, profile, None, SHORT, batches, None),
        plan_key(model_digest(other), profile, None, SHORT, batches, None),
        plan_key(
            model_digest(replace(model, published=published)),
            profile, None, SHORT, batches, None,
        ),
        plan_key(model_digest(first), profile, None, SHORT, batches, None),
        plan_key(digest, profile.replace(margin=3.0), None, SHORT, batches, None),
        plan_key(digest, profile, None, LONG, batches, None),
        plan_key(digest, profile, None, replace(SHORT, wide=True), batches, None),
        plan_key(digest, profile, None, SHORT, batches[:1], None),
        plan_key(digest, profile, None, SHORT, batches, (plan, False)),
        plan_key(digest, profile, None, SHORT, batches, (plan, True)),
    }  # fmt: skip
    assert len(keys) == 10
    assert plan_key(digest, profile, None, SHORT, batches, None) in keys


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content.replace(b"ditto-cached-plan", b"another-file-here"),
        lambda content: content.replace(b'"key": "a', b'"key": "b'),
        lambda content: content.replace(b'"model": "tiny"', b'"model": ["tiny"]'),
        lambda content: content.replace(b'{"key"', b'["key"'),
        lambda content: content[:-20] + b"0" + content[-19:],
        lambda content: content[: content.find(b"\n", 30)] + b"x" * 5000,
    ],
)
def test_what_is_damaged_or_foreign_is_as_good_as_none(
    damage: object, plan: Plan, tmp_path: Path
) -> None:
    cache = PlanCache(tmp_path)
    cache.put(KEY, plan, LABEL)
    assert cache.get(KEY) is not None
    file = tmp_path / "plans" / KEY
    changed = damage(file.read_bytes())  # type: ignore[operator]
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    assert cache.get(KEY) is None
    cache.put(KEY, plan, LABEL)
    again = cache.get(KEY)
    assert again is not None
    assert again.digest == plan.digest


def test_the_files_are_for_nobody_else(plan: Plan, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path / "ditto")
    cache.put(KEY, plan, LABEL)
    modes = {
        stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "ditto", tmp_path / "ditto" / "plans")
    }
    assert modes == {0o700}
    assert stat.S_IMODE((cache.folder / KEY).stat().st_mode) == 0o600
    assert [path.name for path in cache.folder.iterdir()] == [KEY]


def test_a_folder_that_others_may_write_to_is_not_used(
    plan: Plan, tmp_path: Path
) -> None:
    cache = PlanCache(tmp_path)
    cache.put(KEY, plan, LABEL)
    cache.folder.chmod(0o777)
    assert cache.get(KEY) is None
    with pytest.warns(CacheWarning, match="others may write to it"):
        cache.put("b" * 64, plan, LABEL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("b" * 64, plan, LABEL)  # told once
    assert not (cache.folder / ("b" * 64)).exists()


def test_those_not_used_for_longest_go(plan: Plan, tmp_path: Path) -> None:
    size = len(plan.to_bytes()) + 200
    cache = PlanCache(tmp_path, limit=2 * size)
    keys = [letter * 64 for letter in "abc"]
    for age, key in zip((30, 20), keys[:2], strict=True):
        cache.put(key, plan, LABEL)
        os.utime(cache.folder / key, (1e9 - age, 1e9 - age))
    assert cache.get(keys[0]) is not None  # used just now
    cache.put(keys[2], plan, LABEL)
    assert {entry.key for entry in cache.entries()} == {keys[0], keys[2]}
    assert cache.clear() > size
    assert cache.entries() == []


def test_where_and_how_much(tmp_path: Path) -> None:
    assert cache_folder({"DITTO_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/ditto")
    assert cache_folder({}) == Path.home() / ".cache" / "ditto"
    assert cache_limit({}) == USUAL_LIMIT
    assert cache_limit({"DITTO_CACHE_LIMIT": "1000"}) == 1000
    with pytest.raises(SetupError, match="number of bytes, got '2 GiB'"):
        cache_limit({"DITTO_CACHE_LIMIT": "2 GiB"})


def test_the_command_lists_and_clears(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from ditto.cli import app

    monkeypatch.setenv("DITTO_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    name = "a-model-with-a-name-that-is-very-long-indeed"
    PlanCache(tmp_path).put(KEY, plan, Label(name, "ditto", "forward, 4 tokens"))
    run = CliRunner().invoke
    assert run(app, ["cache", "path"]).output == f"{tmp_path}\n"
    listed = run(app, ["cache", "ls"]).output
    assert "a-model-with-a-name-tha…" in listed
    assert max(len(line.rstrip()) for line in listed.splitlines()) <= 80
    (entry,) = entries = json.loads(run(app, ["cache", "ls", "--json", "-"]).output)
    check_document("cache ls", entries)
    assert (entry["key"], entry["label"]["model"]) == (KEY, name)
    assert "removed" in run(app, ["cache", "clear"]).output
    assert json.loads(run(app, ["cache", "ls", "--json", "-"]).output) == []
