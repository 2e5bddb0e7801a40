"""What plans are calibrated on: every bucket on rows of its length and shorter ones."""

from pathlib import Path

import pytest

from ditto.api import Phase, from_pretrained
from ditto.client import Tokenizer
from ditto.client.prefix import prefix_tokens
from ditto.errors import SetupError
from ditto.models.chat_files import ChatFiles, read_chat_files
from ditto.models.chat_template import system_prefix
from ditto.owner.conversations import Conversations
from ditto.owner.sample_text import REQUESTS
from ditto.owner.samples import FEWEST_ROWS, MOST_ROWS, TextSamples
from tests.folders import TEXTS, WORDS, bert_folder, gpt2_folder, llama_folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(bert_folder(tmp_path_factory.mktemp("bert")))


@pytest.mark.parametrize("length", [8, 16, 64, 256, 512])
@pytest.mark.parametrize("pairs", [False, True])
def test_rows_are_full_and_short(
    tokenizer: Tokenizer, length: int, pairs: bool
) -> None:
    samples = TextSamples(tokenizer)
    count = samples.rows(length)
    assert FEWEST_ROWS <= count <= MOST_ROWS
    rows = [samples.row(k, length, pairs=pairs) for k in range(count)]
    sizes = sorted(len(row.ids) for row in rows)
    assert sizes[-1] == sizes[-3] == length
    assert sizes[0] <= (8 if pairs else 3)
    first, last = WORDS.index("[CLS]"), WORDS.index("[SEP]")
    assert all(row.ids[0] == first and row.ids[-1] == last for row in rows)
    assert all(len(row.types) == len(row.ids) for row in rows)
    assert any(1 in row.types for row in rows) == pairs


def test_random_tokens_are_among_them(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(gpt2_folder(tmp_path))
    samples = TextSamples(tokenizer)
    rows = [samples.row(k, 64).ids for k in range(samples.rows(64))]
    assert all(1 <= len(row) <= 64 for row in rows)
    seen = {token for row in rows for token in row}
    assert len(seen) > 0.6 * tokenizer.vocabulary


def test_the_owners_texts_and_pairs_are_used(tokenizer: Tokenizer) -> None:
    samples = TextSamples(tokenizer, [(TEXTS[0], TEXTS[1]), TEXTS[2]])
    alone = [samples.row(k, 64).ids for k in range(samples.rows(64))]
    for text in TEXTS[:3]:
        assert tokenizer.encode(text).ids in alone
    both = [samples.row(k, 64, pairs=True).ids for k in range(samples.rows(64))]
    assert tokenizer.encode(TEXTS[0], TEXTS[1]).ids in both


def test_calibration_that_is_no_list_of_texts_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(SetupError, match="list of texts"):
        TextSamples(tokenizer, "abc")
    with pytest.raises(SetupError, match="at least one text"):
        TextSamples(tokenizer, [])


def test_one_token_again_and_again_and_rows_of_very_few(tokenizer: Tokenizer) -> None:
    samples = TextSamples(tokenizer)
    rows = [samples.row(k, 64).ids for k in range(samples.rows(64))]
    repeated = [row for row in rows if len(row) == 64 and len({*row[1:-1]}) == 1]
    assert len({row[1] for row in repeated}) > 2
    random = [samples.row(k, 64).ids for k in range(7, samples.rows(64), 8)]
    assert {len(row) for row in random} >= {64}
    assert min(len(row) for row in random) <= 5


def test_a_chat_model_is_calibrated_on_conversations_too(tmp_path: Path) -> None:
    model = from_pretrained(llama_folder(tmp_path), mode="float", cache=False)
    samples = model.plans.samples(model.computation(Phase.PREFILL, 1, 64))
    rows = [row[1][0, : row[2][0]].tolist() for row in samples]
    plain = TextSamples(model.tokenizer)
    assert 2 * len(rows) == 3 * plain.rows(64)

    def ids(text: str) -> list[int]:
        return model.tokenizer.encode(text, add_special_tokens=False).ids

    opening = ids("<s><|im_start|>")
    begun = [row for row in rows if row[:2] == opening]
    assert 3 * len(begun) == len(rows)
    roles = ("<s><|im_start|>user ", "<s><|im_start|>system ")
    for start in map(ids, roles):
        assert any(row[: len(start)] == start for row in begun)
    first = ids(f"<s><|im_start|>user {REQUESTS[0]}<|im_end|><|im_start|>")[:64]
    assert any(row == first for row in begun)
    answered = ids("<|im_start|>assistant ")
    assert any(_contains(row, answered) for row in begun)


def test_a_template_that_refuses_roles_or_cannot_be_read(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path)
    for body, count in (
        ("{% for m in messages %}{% if m.role == 'system' or loop.index > 1 %}"
         "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}", 96),
        ("{{ messages[0].content", 64),
        ("{{ raise_exception('never') }}", 64),
    ):  # fmt: skip
        (folder / "chat_template.jinja").write_text(body)
        model = from_pretrained(folder, mode="float", cache=False)
        samples = model.plans.samples(model.computation(Phase.PREFILL, 1, 64))
        assert len(samples) == count


def test_calibration_does_not_depend_on_the_day(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(llama_folder(tmp_path))
    chat = ChatFiles("{{ strftime_now('%Y %j') }} {{ messages[0].content }}")
    found = Conversations(chat, tokenizer).ids(0, ["small cats"], 64, filled=False)
    assert tokenizer.decode(found) == "2024 208 small cats"


def test_conversations_after_a_public_prefix_leave_it_out(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path)
    tokenizer, chat = Tokenizer.load(folder), read_chat_files(folder)
    whole, rest = (
        Conversations(chat, tokenizer, public_prefix=public).ids(
            2, ["small cats"], 64, filled=False
        )
        for public in (False, True)
    )
    prefix = prefix_tokens(tokenizer, system_prefix(chat, ""))
    assert "system" in tokenizer.decode(whole)
    assert "system" not in tokenizer.decode(rest)
    assert tokenizer.decode([*prefix, *rest]).startswith("user small cats")


def _contains(row: list[int], part: list[int]) -> bool:
    return any(row[k : k + len(part)] == part for k in range(len(row)))
