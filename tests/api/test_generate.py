"""Generation: the cache, its growth, who chooses, what stays with the parties."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ditto.api import from_pretrained
from ditto.api.backends import PartiesBackend
from ditto.client import Sampling
from ditto.errors import MessageError, SetupError, TextCutWarning
from ditto.models.computation import Computation, Phase
from ditto.party import serve, store_of
from ditto.runtime import ThreadTrio
from ditto.wire import RunPlan, Turn, encode
from tests.folders import TEXTS, gpt2_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2_folder(tmp_path_factory.mktemp("gpt2"), positions=96)


@pytest.fixture(scope="module")
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def test_the_cache_on_shares_is_the_whole_text_again(
    folder: Path, trio: ThreadTrio
) -> None:
    """Logits of every further token, by the cache and by running the whole prefix."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        prompt = model.tokenizer.encode(TEXTS[0]).ids
        plain, backend = model.with_mode("float").backend, model.backend
        ids = np.zeros((1, 32), np.int32)
        ids[0, : len(prompt)] = prompt
        length = np.array([len(prompt)], np.int32)
        job = Computation(Phase.PREFILL, 1, 32)
        found = backend.run(job, (ids, length))
        for _ in range(3):
            due = plain.run(job, (ids, length)).result
            assert np.abs(found.result - due).max() < 0.02
            token = np.argmax(due, -1).astype(np.int32)
            ids[0, length[0]] = token[0]
            found = backend.run(
                Computation(Phase.DECODE, 1, 64), (token, length), found.state
            )
            length = length + 1
            again = backend.run(job, (ids, length))
            backend.release(again.state)
            assert np.abs(found.result - again.result).max() < 0.02
        backend.release(found.state)
    assert store_of(trio.sessions[0]).conversations() == {}


def test_the_cache_grows_and_never_leaves(folder: Path, trio: ThreadTrio) -> None:
    """From 64 positions to 96, and the client is sent logits alone."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        backend = model.backend
        assert isinstance(backend, PartiesBackend)
        ids = np.resize(np.arange(40, dtype=np.int32), (1, 63))
        length = np.array([62], np.int32)
        first = Computation(Phase.PREFILL, 1, 63)
        found = backend.run(first, (ids, length))
        token = np.array([5], np.int32)
        replies: list[set[str]] = []
        call = trio.call

        def listen(function, *given, **options):
            answers = call(function, *given, **options)
            replies.extend(
                set(arrays) for body, arrays in answers if body["verb"] == "RunReply"
            )
            return answers

        trio.call = listen  # type: ignore[method-assign]
        try:
            for bucket in (64, 64, 96):
                job = Computation(Phase.DECODE, 1, bucket)
                found = backend.run(job, (token, length), found.state)
                length = length + 1
        finally:
            trio.call = call  # type: ignore[method-assign]
        kept = store_of(trio.sessions[1]).conversations()[found.state.conversation]
        assert kept.state is not None
        shapes = {s.shape for s in kept.state.shares}
        due = model.with_mode("float")
        whole = np.concatenate([ids[:, :62], [[5, 5, 5]]], 1).astype(np.int32)
        job = Computation(Phase.PREFILL, 1, 65)
        exact = due.backend.run(job, (whole, length)).result
        backend.release(found.state)
    assert shapes == {(1, 2, 96, 16)}
    assert replies == [{"0", "0.next", "range"}] * 9
    assert np.abs(found.result - exact).max() < 0.03


def test_tokens_are_chosen_by_the_client_or_inside(
    folder: Path, trio: ThreadTrio
) -> None:
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        prompts = TEXTS[:2]
        chosen = [t.ids for t in model.stream(prompts, 3)]
        inside = [t.ids for t in model.stream(prompts, 3, reveal="token")]
        plain = [t.ids for t in model.with_mode("float").stream(prompts, 3)]
        drawn = Sampling(temperature=0.8, top_k=5, seed=3)
        private = [t.ids for t in model.stream(prompts[0], 3, sampling=drawn)]
        assert len(private) == 3
    assert chosen == inside == plain


def test_a_stream_dropped_late_starts_nobody(folder: Path) -> None:
    model = from_pretrained(folder, calibration=TEXTS, trio=None)
    backend = model.backend
    assert isinstance(backend, PartiesBackend)
    model.close()
    backend.release(Turn("a conversation with parties that are gone", 1))
    assert not backend._deployment.running


def test_texts_of_tokens_add_up(folder: Path) -> None:
    model = from_pretrained(folder, mode="float")
    tokens = list(model.stream("the old", 12))
    whole = model.tokenizer.decode([t.ids[0] for t in tokens])
    assert whole.startswith("".join(t.texts[0] for t in tokens))
    with pytest.warns(TextCutWarning, match="the last 1 of its 2 tokens"):
        assert len(list(model.stream("the old", 96))) == 96
    with pytest.raises(SetupError, match="no room"):
        list(model.stream("the old", 97))
    with pytest.raises(SetupError, match="one prompt or more"):
        model.stream([], 2)
    with pytest.raises(SetupError, match="do not draw"):
        model.stream("the", 2, reveal="token", sampling=Sampling(temperature=1.0))


def test_a_party_refuses_what_it_does_not_hold(folder: Path, trio: ThreadTrio) -> None:
    with from_pretrained(folder, calibration=TEXTS) as model:
        plan = model.plans.plan(Computation(Phase.DECODE, 1, 64))
    with ThreadTrio() as parties:
        asked = RunPlan("none", plan.digest, Turn("none", 1))
        refusals = parties.outcomes(serve, *encode(asked)[:1])
        assert all(isinstance(refused, MessageError) for refused in refusals)
        assert "does not hold that plan" in str(refusals[0])
