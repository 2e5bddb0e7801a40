"""What plans are calibrated on: every bucket on rows of its length and shorter ones."""

from pathlib import Path

import pytest

from ditto.client import Tokenizer
from ditto.errors import SetupError
from ditto.owner.samples import FEWEST_ROWS, MOST_ROWS, TextSamples
from tests.folders import TEXTS, WORDS, bert_folder, gpt2_folder


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
