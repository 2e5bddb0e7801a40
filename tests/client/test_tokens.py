"""Our tokens against those of transformers, on tiny vocabularies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer

from ditto.client import BUCKETS, Encoded, Tokenizer, bucket_of, pad_batch
from ditto.errors import CheckpointError, SetupError
from ditto.models import json_file

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "brown", "fox",
    "hello", "world", "cafe", "Hello", "caf", "##s", "##e", "##é", ",", ".", "!", "un",
    "##known", "中", "a", "b", "##b",
]  # fmt: skip
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "hello world, hello fox: it's a café",
    "a private answer to a private question",
]
TEXTS = [
    "",
    "hello",
    "Hello  WORLD, the foxs!",
    " café 中文 \t unknown\n zebra 🙂 e\u0301",
    "it's the quick brown fox's world",
    "the [SEP] fox [MASK] </s> world <|endoftext|>hello",
]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
END = "<|endoftext|>"


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def word_pieces(folder: Path, **options: Any) -> Any:
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    write_json(folder / "config.json", {"model_type": "bert", "pad_token_id": 0})
    if options:
        write_json(folder / "tokenizer_config.json", options)
    return hf.BertTokenizer.from_pretrained(folder)


def word_pieces_by_roberta(folder: Path) -> Any:
    """MPNet's: the words of BERT, around them the tokens of RoBERTa."""
    words = [*ROBERTA[:-1], *WORDS, ROBERTA[-1]]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    write_json(folder / "config.json", {"model_type": "mpnet"})
    return hf.MPNetTokenizer.from_pretrained(folder)


def byte_pairs(folder: Path, special: list[str], kind: str, **options: Any) -> Any:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        CORPUS, vocab_size=320, min_frequency=1, special_tokens=special,
        show_progress=False,
    )  # fmt: skip
    trained.save_model(str(folder))
    write_json(folder / "config.json", {"model_type": kind})
    if options:
        write_json(folder / "tokenizer_config.json", options)
    theirs = hf.GPT2Tokenizer if kind == "gpt2" else hf.RobertaTokenizer
    return theirs.from_pretrained(folder)


def through_json(folder: Path) -> Any:
    """A folder as it is published now, with padding and truncation stored."""
    theirs = word_pieces(folder)
    backend = theirs.backend_tokenizer
    backend.enable_truncation(6)
    backend.enable_padding(length=12)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    return hf.BertTokenizer.from_pretrained(folder)


MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "special": True}
BUILDERS: dict[str, Callable[[Path], Any]] = {
    "bert": word_pieces,
    "bert-cased": lambda f: word_pieces(f, do_lower_case=False),
    "bert-accents": lambda f: word_pieces(
        f, strip_accents=False, tokenize_chinese_chars=False, truncation_side="left"
    ),
    "json": through_json,
    "gpt2": lambda f: byte_pairs(f, [END], "gpt2"),
    "gpt2-options": lambda f: byte_pairs(
        f, [END], "gpt2", add_bos_token=True, add_prefix_space=True
    ),
    "roberta": lambda f: byte_pairs(f, ROBERTA, "roberta"),
    "mpnet": word_pieces_by_roberta,
}


@pytest.fixture(scope="module", params=BUILDERS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    theirs = BUILDERS[request.param](folder)
    return Tokenizer.load(folder), theirs


def same(
    ours: Tokenizer, theirs: Any, text: str, pair: str | None, length: int | None
) -> None:
    expected = theirs(
        [text],
        None if pair is None else [pair],
        truncation=length is not None,
        max_length=length,
        return_token_type_ids=True,
    )
    found = ours.encode(text, pair, length)
    assert found.ids == expected["input_ids"][0]
    assert found.types == expected["token_type_ids"][0]
    assert ours.decode(found.ids) == theirs.decode(found.ids, skip_special_tokens=True)


@pytest.mark.parametrize("length", [None, 5, 8])
@pytest.mark.parametrize("text", TEXTS)
def test_single_texts(
    both: tuple[Tokenizer, Any], text: str, length: int | None
) -> None:
    same(*both, text, None, length)


@pytest.mark.parametrize("length", [None, 5, 8, 11])
@pytest.mark.parametrize("pair", [*zip(TEXTS, TEXTS[::-1], strict=True)])
def test_pairs(
    both: tuple[Tokenizer, Any], pair: tuple[str, str], length: int | None
) -> None:
    same(*both, *pair, length)


@settings(deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    pair=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    length=st.none() | st.integers(5, 20),
)
def test_any_text(
    both: tuple[Tokenizer, Any], text: str, pair: str | None, length: int | None
) -> None:
    same(*both, text, pair, length)


def test_bytes_come_back(tmp_path: Path) -> None:
    byte_pairs(tmp_path, [END], "gpt2")
    ours = Tokenizer.load(tmp_path)
    for text in TEXTS[:-1]:
        assert ours.decode(np.array(ours.encode(text).ids, np.int32)) == text


def test_stored_padding_and_truncation_are_off(tmp_path: Path) -> None:
    through_json(tmp_path)
    ours = Tokenizer.load(tmp_path)
    assert len(ours.encode("the").ids) == 3
    assert len(ours.encode("the " * 20).ids) == 22
    assert len(ours.encode("the " * 20, max_length=8).ids) == 8
    assert len(ours.encode("the " * 20).ids) == 22


def test_ids_of_the_families(tmp_path: Path) -> None:
    found = {}
    for name, build in BUILDERS.items():
        folder = tmp_path / name
        folder.mkdir()
        build(folder)
        ours = Tokenizer.load(folder)
        found[name] = (ours.pad_id, ours.eos_id)
        known = len(WORDS) if name in ("json", "bert", "bert-cased") else None
        assert known in (None, ours.vocabulary)
    assert found["bert"] == found["json"] == (0, None)
    assert found["gpt2"] == (0, 0)
    assert found["roberta"] == found["mpnet"] == (1, 2)


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        ({}, {"pad_token": "the"}, (5, 6)),
        ({"pad_token_id": 7}, {}, (7, 6)),
        ({}, {}, (6, 6)),
        ({"pad_token_id": -1, "eos_token_id": [8, 6]}, {"eos_token": None}, (8, 8)),
        ({"eos_token_id": 99}, {"eos_token": None}, (0, None)),
    ],
)
def test_pad_and_eos(
    tmp_path: Path,
    config: dict[str, Any],
    options: dict[str, Any],
    expected: tuple[int, int | None],
) -> None:
    theirs = word_pieces(tmp_path)
    theirs.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "config.json", {"model_type": "other", **config})
    write_json(tmp_path / "tokenizer_config.json", {"eos_token": "quick", **options})
    ours = Tokenizer.load(tmp_path)
    assert (ours.pad_id, ours.eos_id) == expected


def test_pad_from_the_special_tokens_map(tmp_path: Path) -> None:
    byte_pairs(tmp_path, [END, "<pad>"], "gpt2")
    assert Tokenizer.load(tmp_path).pad_id == 0
    write_json(tmp_path / "special_tokens_map.json", {"pad_token": "<pad>"})
    assert Tokenizer.load(tmp_path).pad_id == 1


@pytest.mark.parametrize("older", [True, False])
def test_added_tokens_keep_their_ids(tmp_path: Path, older: bool) -> None:
    number = len(WORDS)
    word_pieces(tmp_path)
    if older:
        write_json(tmp_path / "added_tokens.json", {"<new>": number})
    else:
        added = {"content": "<new>", "lstrip": False, "special": True}
        write_json(
            tmp_path / "tokenizer_config.json",
            {"added_tokens_decoder": {str(number): added}},
        )
    ours = Tokenizer.load(tmp_path)
    assert ours.encode("the<new>fox").ids == [2, 5, number, 8, 3]
    assert ours.vocabulary == number + 1
    if older:
        write_json(tmp_path / "added_tokens.json", {"<new>": number + 4})
        with pytest.raises(CheckpointError, match=f"'<new>' the id {number + 4}"):
            Tokenizer.load(tmp_path)


def test_published_mask_takes_the_space_before(tmp_path: Path) -> None:
    # transformers 5 forgets it for a bare vocabulary, and heeds it where it is told.
    theirs = byte_pairs(tmp_path, ROBERTA, "roberta", mask_token=MASK)
    same(Tokenizer.load(tmp_path), theirs, "hello <mask> world", None, None)
    (tmp_path / "tokenizer_config.json").unlink()
    same(Tokenizer.load(tmp_path), theirs, "hello <mask> world", None, None)


def test_vocabulary_without_config_is_bert(tmp_path: Path) -> None:
    theirs = word_pieces(tmp_path)
    (tmp_path / "config.json").unlink()
    same(Tokenizer.load(tmp_path), theirs, "the fox", "hello [PAD]", 6)


def test_tokenizer_class_stands_in_for_config(tmp_path: Path) -> None:
    theirs = byte_pairs(
        tmp_path, ROBERTA, "roberta", tokenizer_class="RobertaTokenizerFast"
    )
    (tmp_path / "config.json").unlink()
    same(Tokenizer.load(tmp_path), theirs, "the fox", "hello", 6)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        Tokenizer.load(folder)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "is not a folder")
    refused(tmp_path, r"tokenizer\.json.*vocab\.txt.*vocab\.json with merges\.txt")
    write_json(tmp_path / "vocab.json", {"a": 0})
    refused(tmp_path, "holds no tokenizer")
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    refused(tmp_path, "gpt2, roberta; .* the type is None")
    write_json(tmp_path / "config.json", {"model_type": "gpt2"})
    refused(tmp_path, "line 2: a merge is of two")
    (tmp_path / "merges.txt").write_text("a b\n")
    refused(tmp_path, "cannot be read: .*out of vocabulary")
    (tmp_path / "merges.txt").write_text("")
    write_json(tmp_path / "config.json", {"model_type": "roberta"})
    refused(tmp_path, "lacks the sep token, '</s>',")
    write_json(tmp_path / "tokenizer_config.json", {"sep_token": None})
    refused(tmp_path, "lacks the sep token without")
    write_json(tmp_path / "tokenizer_config.json", {"sep_token": 7})
    refused(tmp_path, "holds 7, which is not a token")
    (tmp_path / "tokenizer_config.json").write_text("[" * 100_000)
    refused(tmp_path, r"tokenizer_config\.json is not JSON")
    (tmp_path / "tokenizer_config.json").write_text("[]")
    refused(tmp_path, "does not hold a JSON object")
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    refused(tmp_path, "bert, distilbert, mpnet; .* the type is roberta")
    write_json(tmp_path / "config.json", {"model_type": "distilbert"})
    refused(tmp_path, "not UTF-8 at byte 6")
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n")
    refused(tmp_path, "lacks the sep token")
    (tmp_path / "tokenizer.json").write_text("{}")
    refused(tmp_path, "cannot be read: .*Model missing")


def test_files_are_read_with_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word_pieces(tmp_path)
    monkeypatch.setattr(json_file, "MAX_JSON", 100)
    refused(tmp_path, r"vocab\.txt is larger than 100 bytes")


def test_bad_sides_and_lengths(tmp_path: Path) -> None:
    word_pieces(tmp_path)
    ours = Tokenizer.load(tmp_path)
    assert ours.encode("the fox", max_length=3).ids == [2, 5, 3]
    with pytest.raises(SetupError, match=r"2 tokens leaves no room.* 3 at least"):
        ours.encode("the fox", max_length=2)
    with pytest.raises(SetupError, match=r"3 tokens leaves no room.* 4 at least"):
        ours.encode("the", "fox", max_length=3)
    with pytest.raises(SetupError, match="not valid Unicode"):
        ours.encode("the \ud800")
    with pytest.raises(SetupError, match=f"-1 is not a token.* {len(WORDS) - 1}"):
        ours.decode([5, -1])
    write_json(tmp_path / "tokenizer_config.json", {"truncation_side": "top"})
    refused(tmp_path, "'top': left or right")


@given(length=st.integers(0, 700), limit=st.integers(1, 2000))
def test_bucket_is_the_smallest_that_holds(length: int, limit: int) -> None:
    longest = min(limit, BUCKETS[-1])
    if length > longest:
        with pytest.raises(SetupError, match=f"{length} tokens .* {longest}:"):
            bucket_of(length, BUCKETS, limit)
        return
    bucket = bucket_of(length, BUCKETS, limit)
    assert length <= bucket <= limit
    assert bucket == limit or bucket in BUCKETS
    assert not any(length <= other < bucket for other in BUCKETS)


def test_buckets() -> None:
    assert [bucket_of(n) for n in (0, 8, 9, 1024)] == [8, 8, 16, 1024]
    assert bucket_of(17, limit=20) == 20
    assert bucket_of(17, (100, 50)) == 50
    for buckets, limit in (((), None), ((0, 8), None), ((8,), 0)):
        with pytest.raises(SetupError, match="positive"):
            bucket_of(1, buckets, limit)


def test_batches_are_padded_on_the_right() -> None:
    batch = pad_batch([Encoded([5, 6, 7], [0, 0, 1]), Encoded([8], [0])], 4, 9)
    assert batch.ids.tolist() == [[5, 6, 7, 9], [8, 9, 9, 9]]
    assert batch.mask.tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
    assert batch.types.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    for array in (batch.ids, batch.mask, batch.types, batch.lengths):
        assert array.dtype == np.int32
    for wrong in (Encoded([], []), Encoded([1] * 5, [0] * 5)):
        with pytest.raises(SetupError, match=r"Text 0 .* 1 to 4\."):
            pad_batch([wrong], 4, 0)
