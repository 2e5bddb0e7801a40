"""Generation: the cache, its growth, who chooses, what stays with the parties."""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from ditto.client import Sampling
from ditto.engine import ThreadTrio
from ditto.errors import MessageError, SetupError
from ditto.inference import from_pretrained
from ditto.inference.backends import PartiesBackend
from ditto.inference.jobs import Job
from ditto.models import gpt2, load_model
from ditto.party import run
from ditto.party.holdings import holdings
from tests.folders import TEXTS, gpt2_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2_folder(tmp_path_factory.mktemp("gpt2"), positions=96)


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def test_going_on_is_beginning_again_with_more(folder: Path) -> None:
    """In float: the cache gives the logits of the whole text, at any length."""
    model = load_model(folder)
    config, params = model.config, model.params
    rng = np.random.default_rng(0)
    ids = rng.integers(0, config.vocabulary, (3, 12)).astype(np.int32)
    lengths = np.array([4, 7, 9], np.int32)
    _, cache = gpt2.begin(config, params, ids[:, :9], lengths)
    cache = jax.tree.map(
        lambda x: np.pad(x, ((0, 0), (0, 0), (0, 3), (0, 0)), constant_values=7.0),
        cache,
    )
    for step in range(3):
        now = lengths + step
        token = np.take_along_axis(ids, now[:, None], 1)[:, 0]
        logits, cache = gpt2.go_on(config, params, token, now, cache)
        mask = np.arange(12) < now[:, None] + 1
        whole = model.apply(params, ids, mask)
        due = np.take_along_axis(np.asarray(whole), now[:, None, None], 1)[:, 0]
        assert np.abs(logits - due).max() < 1e-5


def test_the_cache_on_shares_is_the_whole_text_again(
    folder: Path, trio: ThreadTrio
) -> None:
    """Logits of every further token, by the cache and by running the whole prefix."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        prompt = model.tokenizer.encode(TEXTS[0]).ids
        plain, backend = model.also("float").backend, model.backend
        ids = np.zeros((1, 32), np.int32)
        ids[0, : len(prompt)] = prompt
        length = np.array([len(prompt)], np.int32)
        job = Job("begin", 1, 32)
        result, state = backend.run(job, (ids, length))
        for _ in range(3):
            due, _ = plain.run(job, (ids, length))
            assert np.abs(result - due).max() < 0.02
            token = np.argmax(due, -1).astype(np.int32)
            ids[0, length[0]] = token[0]
            result, state = backend.run(Job("go on", 1, 64), (token, length), state)
            length = length + 1
            again, other = backend.run(job, (ids, length))
            backend.release(other)
            assert np.abs(result - again).max() < 0.02
        backend.release(state)
    assert holdings(trio.sessions[0]).states == {}


def test_the_cache_grows_and_never_leaves(folder: Path, trio: ThreadTrio) -> None:
    """From 64 positions to 96, and the client is sent logits alone."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        backend = model.backend
        assert isinstance(backend, PartiesBackend)
        ids = np.resize(np.arange(40, dtype=np.int32), (1, 63))
        length = np.array([62], np.int32)
        first = Job("begin", 1, 63)
        result, state = backend.run(first, (ids, length))
        token = np.array([5], np.int32)
        replies: list[set[str]] = []
        call = trio.call

        def listen(function, *given, **options):
            answers = call(function, *given, **options)
            replies.extend(set(arrays) for _, arrays in answers if function is run)
            return answers

        trio.call = listen  # type: ignore[method-assign]
        try:
            for bucket in (64, 64, 96):
                job = Job("go on", 1, bucket)
                result, state = backend.run(job, (token, length), state)
                length = length + 1
        finally:
            trio.call = call  # type: ignore[method-assign]
        shapes = {s.shape for s in holdings(trio.sessions[1]).states[state]}
        due = model.also("float")
        whole = np.concatenate([ids[:, :62], [[5, 5, 5]]], 1).astype(np.int32)
        exact, _ = due.backend.run(Job("begin", 1, 65), (whole, length))
        backend.release(state)
    assert shapes == {(1, 2, 96, 16)}
    assert replies == [{"0"}] * 9
    assert np.abs(result - exact).max() < 0.03


def test_tokens_are_chosen_by_the_client_or_inside(
    folder: Path, trio: ThreadTrio
) -> None:
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        prompts = TEXTS[:2]
        chosen = [t.ids for t in model.generate(prompts, 3)]
        inside = [t.ids for t in model.generate(prompts, 3, inside=True)]
        plain = [t.ids for t in model.also("float").generate(prompts, 3)]
        drawn = Sampling(temperature=0.8, top_k=5, seed=3)
        private = [t.ids for t in model.generate(prompts[0], 3, sampling=drawn)]
        assert len(private) == 3
    assert chosen == inside == plain


def test_a_stream_dropped_late_starts_nobody(folder: Path) -> None:
    model = from_pretrained(folder, calibration=TEXTS, trio=None)
    backend = model.backend
    assert isinstance(backend, PartiesBackend)
    model.close()
    backend.release("a state of parties that are gone")
    assert backend._trio is None


def test_texts_of_tokens_add_up(folder: Path) -> None:
    model = from_pretrained(folder, mode="float")
    tokens = list(model.generate("the old", 12))
    whole = model.tokenizer.decode([t.ids[0] for t in tokens])
    assert whole.startswith("".join(t.texts[0] for t in tokens))
    assert len(list(model.generate("the old", 96))) == 96
    with pytest.raises(SetupError, match="no room"):
        list(model.generate("the old", 97))
    with pytest.raises(SetupError, match="one prompt or more"):
        model.generate([], 2)
    with pytest.raises(SetupError, match="do not draw"):
        model.generate("the", 2, inside=True, sampling=Sampling(temperature=1.0))


def test_a_party_refuses_what_it_does_not_hold(folder: Path, trio: ThreadTrio) -> None:
    with from_pretrained(folder, calibration=TEXTS) as model:
        plan = model.plans.plan(Job("go on", 1, 64))
    with ThreadTrio() as parties:
        asked = {"plan": plan.digest, "model": "none", "state": "none"}
        refusals = parties.outcomes(run, asked)
        assert all(isinstance(refused, MessageError) for refused in refusals)
        assert "does not hold that plan" in str(refusals[0])
