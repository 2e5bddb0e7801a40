"""Texts after a public prefix: the same answers, for what the other tokens cost."""

import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ditto.analysis import estimate
from ditto.api import from_pretrained
from ditto.api.export import export_model
from ditto.client import Tokenizer
from ditto.client.asking import Client
from ditto.client.bundle import read_client_bundle
from ditto.client.prefix import after_prefix, prefix_tokens
from ditto.compiler import PROFILES
from ditto.errors import SetupError
from ditto.models import Model, random_model
from ditto.models.chat_files import read_chat_files
from ditto.models.chat_template import ChatTemplate, conversation, system_prefix
from ditto.models.computation import Computation, Phase
from ditto.models.prefix import with_prefix
from ditto.owner.plans import Plans
from ditto.owner.samples import RandomSamples
from ditto.party import LocalDeployment, load_local_bundle
from ditto.runtime import ThreadTrio
from tests.folders import TEXTS, bert_folder, gpt2_folder, llama_folder

WORDS = 64
IDS = np.arange(3, 23, dtype=np.int32)[None]
SYSTEM = "be very small"


def tiny(name: str) -> Model:
    return random_model(f"{name}-tiny", vocab_size=WORDS)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("count", [1, 8, 19])
def test_logits_and_cache_are_those_of_the_whole_text(name: str, count: int) -> None:
    model = tiny(name)
    after = with_prefix(model, IDS[0, :count].tolist())
    lengths = np.array([IDS.shape[1]], np.int32)
    due, cache = model.prefill(model.params, IDS, lengths)
    got, grown = after.prefill(after.params, IDS[:, count:], lengths - count)
    np.testing.assert_allclose(got, due, atol=1e-5)
    for pair, exact in zip(grown, cache, strict=True):
        for one, other in zip(pair, exact, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    assert after.max_tokens == model.max_tokens - count
    step = np.array([7], np.int32), lengths
    room = [
        tuple(np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0))) for x in p) for p in cache
    ]
    np.testing.assert_allclose(
        after.decode(after.params, *step, room)[0],
        model.decode(model.params, *step, room)[0],
        atol=1e-5,
    )


def test_rows_of_a_batch_have_the_same_prefix() -> None:
    model = tiny("llama")
    after = with_prefix(model, [5, 6, 7])
    rows = np.array([[8, 9, 10, 0], [11, 12, 13, 14]], np.int32)
    lengths = np.array([3, 4], np.int32)
    got, _ = after.prefill(after.params, rows, lengths)
    for k in range(2):
        whole = np.array([[5, 6, 7, *rows[k, : lengths[k]]]], np.int32)
        due, _ = model.prefill(model.params, whole, np.array([whole.size], np.int32))
        np.testing.assert_allclose(got[k : k + 1], due, atol=1e-5)


def test_what_has_no_room_or_no_use_is_refused(tmp_path: Path) -> None:
    model = tiny("gpt2")
    for ids in ([], [1] * model.max_tokens):
        with pytest.raises(SetupError, match=f"has {len(ids)} tokens"):
            with_prefix(model, ids)
    with pytest.raises(SetupError, match="already"):
        with_prefix(with_prefix(model, [1]), [2])
    with pytest.raises(SetupError, match="does not generate text"):
        from_pretrained(bert_folder(tmp_path), public_prefix="the old")


def test_prompts_cost_what_their_other_tokens_cost() -> None:
    """No byte is spent on what the owner computed, but on the scores with its keys."""
    model = tiny("llama")

    def plans(model: Model) -> Plans:
        return Plans(model, PROFILES["ditto"], RandomSamples(WORDS), rows=4)

    prompt = Computation(Phase.PREFILL, 1, 8)
    after = plans(with_prefix(model, IDS[0, :12].tolist()))
    bare, cost, whole = (
        estimate(plan).bytes
        for plan in (
            plans(model).plan(prompt),
            after.plan(prompt),
            plans(model).plan(replace(prompt, length=20)),
        )
    )
    assert bare < cost < 0.7 * whole


def test_tokens_of_a_prefix_do_not_depend_on_what_follows(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(gpt2_folder(tmp_path / "g", layers=1))
    for text in ("the old", "the old ", "the old cat s", "a dog\n", "dogs don'"):
        found = prefix_tokens(tokenizer, text)
        assert 0 < len(found) < len(tokenizer.encode(text).ids)
        for end in (*string.printable, "at on the mat", "\n\n", " the", "\u65e5", ""):
            assert tokenizer.encode(text + end).ids[: len(found)] == found, (text, end)
    with pytest.raises(SetupError, match="one word at most"):
        prefix_tokens(tokenizer, "the")
    # a special token ends a prefix, and one that a template names comes once
    chat = Tokenizer.load(llama_folder(tmp_path / "l", layers=1))
    for text in ("the<|im_end|>", "<s>the<|im_end|>", "<s>the<|im_end|>user "):
        assert prefix_tokens(chat, text) == chat.encode("the<|im_end|>").ids


def test_a_prompt_that_begins_otherwise_is_refused() -> None:
    assert after_prefix([1, 2, 3], [1, 2]) == [3]
    assert after_prefix([1, 2], []) == [1, 2]
    for ids in ([1], [2, 1, 3], []):
        with pytest.raises(SetupError, match="does not begin with the 2 tokens"):
            after_prefix(ids, [1, 2])
    with pytest.raises(SetupError, match="nothing is private"):
        after_prefix([1, 2], [1, 2])


@pytest.mark.parametrize("system", [SYSTEM, ""])
def test_a_system_message_is_what_conversations_begin_with(
    tmp_path: Path, system: str
) -> None:
    chat = read_chat_files(llama_folder(tmp_path, layers=1))
    assert chat.template is not None
    prefix = system_prefix(chat, system)
    assert prefix.endswith("<|im_start|>user ")
    assert (SYSTEM in prefix) == bool(system)
    template = ChatTemplate(chat.template)
    for said in ("the old cat", "b", "?"):
        whole = template.render(conversation(said, system), chat.special_tokens)
        assert whole.startswith(prefix + said)


def test_a_private_conversation_after_a_public_system_message(tmp_path: Path) -> None:
    """Three parties, here and by a bundle: the tokens of the model without a prefix,
    for fewer bytes."""
    folder = llama_folder(tmp_path / "llama")
    chat = read_chat_files(folder)
    assert chat.template is not None
    prompt = ChatTemplate(chat.template).render(
        conversation("the old cat", SYSTEM), chat.special_tokens
    )
    plain = from_pretrained(folder, mode="float")
    due = [t.ids[0] for t in plain.stream(prompt, 3, add_special_tokens=False)]
    prefix = system_prefix(chat, SYSTEM)
    with (
        ThreadTrio(timeout=300) as trio,
        from_pretrained(
            folder, calibration=TEXTS, trio=trio, public_prefix=prefix
        ) as model,
    ):
        assert len(model.public_prefix) > 8
        tokens = list(model.stream(prompt, 3, add_special_tokens=False))
        assert [token.ids[0] for token in tokens] == due
        assert not any(doubt for token in tokens for doubt in token.doubts)
        # longer: with its padding, more than the first cache has room for
        longer = model.stream(f"{prefix}{' cat' * 20}", 2, add_special_tokens=False)
        assert all(token.in_range for token in longer)
        with pytest.raises(SetupError, match="does not begin"):
            next(model.stream("the old cat", 3))
        export_model(model, folder, tmp_path / "out", lengths=[16], tokens=3)
    with ThreadTrio(timeout=300) as trio:
        load_local_bundle(trio, tmp_path / "out")
        bundle = read_client_bundle(tmp_path / "out" / "client")
        assert bundle.public_prefix == model.public_prefix
        client = Client(bundle, LocalDeployment(trio))
        asked = list(client.stream(prompt, 3, add_special_tokens=False))
        assert [each.token for each in asked] == due
        with pytest.raises(SetupError, match="does not begin"):
            next(client.stream("the old cat", 3))
