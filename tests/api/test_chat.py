"""A conversation with a tiny Llama by three parties, as the float model has it."""

from contextlib import closing
from pathlib import Path

import pytest
import transformers as hf

from ditto.api import from_pretrained
from ditto.api.answering import open_local
from ditto.client import Tokenizer
from ditto.models.chat_files import read_chat_files
from ditto.models.chat_template import ChatTemplate
from ditto.runtime import ThreadTrio
from tests.folders import TEXTS, llama_folder

SAID = [{"role": "user", "content": "the old cat"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama_folder(tmp_path_factory.mktemp("llama"))


def prompt_of(folder: Path) -> str:
    chat = read_chat_files(folder)
    assert chat.template is not None
    return ChatTemplate(chat.template).render(SAID, chat.special_tokens)


def test_a_rendered_prompt_has_one_bos(folder: Path) -> None:
    """As transformers tokenises it; a plain text gets its token from the tokenizer."""
    theirs = hf.AutoTokenizer.from_pretrained(folder)
    expected = theirs.apply_chat_template(
        SAID, add_generation_prompt=True, return_dict=False
    )
    ours = Tokenizer.load(folder)
    ids = ours.encode(prompt_of(folder), add_special_tokens=False).ids
    assert ids == expected
    assert ids.count(0) == 1
    assert ours.encode(prompt_of(folder)).ids == [0, *expected]
    assert ours.encode(TEXTS[0]).ids == theirs(TEXTS[0])["input_ids"]
    cut = ours.encode(prompt_of(folder), max_length=3, add_special_tokens=False)
    assert cut.ids == expected[:3]


def test_a_private_conversation_is_that_of_the_float_model(folder: Path) -> None:
    """Keys of two heads serve four of queries; tokens come from three parties."""
    prompt = prompt_of(folder)
    with (
        ThreadTrio(timeout=300) as trio,
        from_pretrained(folder, calibration=TEXTS, trio=trio) as model,
    ):
        tokens = list(model.stream(prompt, 4, add_special_tokens=False))
        plain = model.with_mode("float")
        due = list(plain.stream(prompt, 4, add_special_tokens=False))
        assert [t.ids for t in tokens] == [t.ids for t in due]
        assert [t.texts for t in tokens] == [t.texts for t in due]
        assert not any(doubt for token in tokens for doubt in token.doubts)
        (whole,) = model.generate(TEXTS[0], 2)
        (exact,) = plain.generate(TEXTS[0], 2)
        assert whole.ids == exact.ids


def test_who_answers_counts_the_same_tokens(folder: Path) -> None:
    with closing(open_local({"chat": folder}, trio=ThreadTrio())) as answering:
        (card,) = answering.models()
        assert card.chat_template == read_chat_files(folder).template
        prompt = prompt_of(folder)
        count = answering.count_tokens
        assert count("chat", prompt) == 1 + count(
            "chat", prompt, add_special_tokens=False
        )
