"""Text to tokens and back, padded to few lengths.

A folder as ``save_pretrained`` writes it, read by the ``tokenizers`` library alone:
``tokenizer.json``, or the older files of the families that Ditto runs. Tokens are those
of transformers. Nothing in the folder is executed, and every file is read with a limit.

The shape of a private computation is public. Texts are padded to one of a few lengths,
the buckets, so that a shape tells less of a text and few plans serve all.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers import processors as post_processors

from ditto.errors import CheckpointError, SetupError
from ditto.files import read_limited
from ditto.models.checkpoint import MAX_JSON

Ints = npt.NDArray[np.int32]

BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""The lengths that texts are padded to, unless told."""

_JSON = "tokenizer.json"
_WORDS = "vocab.txt"
_PAIRS = ("vocab.json", "merges.txt")
_SETTINGS = "tokenizer_config.json"

_FAMILIES = {"bert": "bert", "distilbert": "bert", "gpt2": "gpt2", "roberta": "roberta"}
_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def _special(content: str, lstrip: bool = False) -> AddedToken:
    return AddedToken(content, lstrip=lstrip, normalized=False, special=True)


_DEFAULTS = {
    "bert": {
        n: _special(f"[{n.upper()}]") for n in ("unk", "sep", "pad", "cls", "mask")
    },
    "gpt2": {n: _special("<|endoftext|>") for n in ("bos", "eos", "unk")},
    "roberta": {
        "bos": _special("<s>"),
        "eos": _special("</s>"),
        "unk": _special("<unk>"),
        "sep": _special("</s>"),
        "pad": _special("<pad>"),
        "cls": _special("<s>"),
        "mask": _special("<mask>", lstrip=True),  # as published: takes the space before
    },
}


@dataclass(frozen=True)
class Encoded:
    """A text, or a pair of texts, as tokens."""

    ids: list[int]
    types: list[int]


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts padded on the right to one length: ids, mask and types (B, S)."""

    ids: Ints
    mask: Ints
    types: Ints
    lengths: Ints


class Tokenizer:
    """Text to tokens and back, as the model was trained. Safe to share by threads."""

    def __init__(
        self, backend: Backend, pad_id: int, eos_id: int | None, truncation_side: str
    ) -> None:
        self.pad_id = pad_id
        self.eos_id = eos_id
        self._backend = backend
        self._side = truncation_side
        self._lock = threading.Lock()  # the backend keeps the truncation as state

    @classmethod
    def load(cls, folder: str | Path) -> "Tokenizer":
        """The tokenizer in a Hugging Face folder; refuses what it cannot read."""
        source = _read_source(Path(folder))
        try:
            backend = _build(source)
            return cls._of(source, backend)
        except CheckpointError:
            raise
        except Exception as error:  # the library raises bare exceptions
            raise CheckpointError(
                f"The tokenizer in {source.root} cannot be read: {error}"
            ) from None

    @classmethod
    def _of(cls, source: "_Source", backend: Backend) -> "Tokenizer":
        padding, truncation = backend.padding or {}, backend.truncation or {}
        backend.no_padding()
        backend.no_truncation()
        known = backend.get_added_tokens_decoder().values()
        written = {token.content for token in known}
        backend.add_special_tokens(
            [
                token
                for token in source.named.values()
                if token.content not in written
                and backend.token_to_id(token.content) is not None
            ]
        )
        eos = _first(
            _named_id(source, backend, "eos"),
            _known_id(backend, source.config.get("eos_token_id")),
        )
        pad = _first(
            _named_id(source, backend, "pad"),
            _known_id(backend, padding.get("pad_id")),
            _known_id(backend, source.config.get("pad_token_id")),
            eos,
        )
        side = source.settings.get("truncation_side", truncation.get("direction"))
        if side not in (None, "left", "right"):
            raise CheckpointError(f"{_SETTINGS} cuts on the {side!r}: left or right.")
        return cls(backend, 0 if pad is None else pad, eos, side or "right")

    @cached_property
    def vocabulary(self) -> int:
        """How many ids there are: one more than the largest."""
        return 1 + max(self._backend.get_vocab().values(), default=-1)

    def encode(
        self, text: str, pair: str | None = None, max_length: int | None = None
    ) -> Encoded:
        """The tokens of a text or a pair, special tokens included.

        Beyond ``max_length`` tokens are cut, from the longer text of a pair first.
        """
        if max_length is not None:
            least = self._backend.num_special_tokens_to_add(pair is not None) + 1
            if max_length < least:
                raise SetupError(
                    f"A length of {max_length} tokens leaves no room for text: with "
                    f"the special tokens it must be {least} at least."
                )
        with self._lock:
            if max_length is None:
                self._backend.no_truncation()
            else:
                self._backend.enable_truncation(max_length, direction=self._side)
            try:
                found = self._backend.encode(text, pair)
            except TypeError:
                raise SetupError(
                    "The text is not valid Unicode: it holds half of a surrogate "
                    "pair. Read it as UTF-8."
                ) from None
            except Exception as error:  # the library raises bare exceptions
                raise CheckpointError(f"The tokenizer failed: {error}") from None
        return Encoded(found.ids, found.type_ids)

    def decode(self, ids: Sequence[int] | Ints) -> str:
        """The text of tokens, special tokens left out."""
        numbers = [int(number) for number in ids]
        wrong = next((n for n in numbers if not 0 <= n < 1 << 31), None)
        if wrong is not None:
            raise SetupError(
                f"{wrong} is not a token: ids go from 0 to {self.vocabulary - 1}."
            )
        return self._backend.decode(numbers, skip_special_tokens=True)


def bucket_of(
    length: int, buckets: Sequence[int] = BUCKETS, limit: int | None = None
) -> int:
    """The smallest bucket that holds ``length`` tokens.

    ``limit`` is how many positions the model has: longer buckets shrink to it.
    """
    if not buckets or min(buckets) < 1 or (limit is not None and limit < 1):
        raise SetupError(
            f"Buckets {list(buckets)} with a limit of {limit}: there must be one at "
            "least, and all must be positive."
        )
    capped = [bucket if limit is None else min(bucket, limit) for bucket in buckets]
    if not 0 <= length <= max(capped):
        raise SetupError(
            f"A text of {length} tokens does not fit the longest bucket, "
            f"{max(capped)}: cut it when it is encoded."
        )
    return min(bucket for bucket in capped if bucket >= length)


def pad_batch(encoded: Sequence[Encoded], length: int, pad_id: int) -> Batch:
    """Texts padded on the right to ``length`` tokens."""
    shape = (len(encoded), length)
    ids = np.full(shape, pad_id, np.int32)
    mask, types = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, one in enumerate(encoded):
        count = len(one.ids)
        if not 1 <= count <= length:
            raise SetupError(
                f"Text {row} of the batch has {count} tokens; there must be 1 to "
                f"{length}."
            )
        ids[row, :count] = one.ids
        mask[row, :count] = 1
        types[row, :count] = one.types
    return Batch(ids, mask, types, mask.sum(1, dtype=np.int32))


@dataclass(frozen=True)
class _Source:
    """What a folder says of its tokenizer, beside the vocabulary."""

    root: Path
    kind: str | None
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    named: Mapping[str, AddedToken]

    @property
    def family(self) -> str | None:
        return _FAMILIES.get(str(self.kind))


def _read_source(root: Path) -> _Source:
    if not root.is_dir():
        raise CheckpointError(f"{root} is not a folder.")
    config = _read_json(root / "config.json", missing={})
    settings = _read_json(root / _SETTINGS, missing={})
    told = _read_json(root / "special_tokens_map.json", missing={}) | settings
    kind = config.get("model_type") or _kind_of(settings.get("tokenizer_class"))
    if kind is None and (root / _WORDS).is_file():
        kind = "bert"
    source = _Source(root, kind, config, settings, {})
    return replace(source, named=_named(told, _DEFAULTS.get(source.family or "", {})))


def _kind_of(tokenizer_class: Any) -> str | None:
    if not isinstance(tokenizer_class, str):
        return None
    return tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer").lower()


def _named(
    told: Mapping[str, Any], defaults: Mapping[str, AddedToken]
) -> dict[str, AddedToken]:
    named = dict(defaults)
    for name in _NAMES:
        value = told.get(f"{name}_token")
        if value is None and f"{name}_token" in told:
            named.pop(name, None)
        elif value is not None and (name not in named or value != named[name].content):
            named[name] = _added(value, special=True)
    return named


def _added(value: Any, special: bool) -> AddedToken:
    """A token as the files of transformers write it: its content, or a table."""
    told = {"content": value} if isinstance(value, str) else value
    if not isinstance(told, dict) or not isinstance(told.get("content"), str):
        raise CheckpointError(f"{_SETTINGS} holds {value!r}, which is not a token.")
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    return AddedToken(
        told["content"],
        special=special or told.get("special") is True,
        **{flag: told.get(flag) is True for flag in flags},
    )


def _build(source: _Source) -> Backend:
    root = source.root
    if (root / _JSON).is_file():
        return Backend.from_buffer(_read(root / _JSON))
    if (root / _WORDS).is_file():
        backend = _word_pieces(source)
    elif all((root / name).is_file() for name in _PAIRS):
        backend = _byte_pairs(source)
    else:
        raise CheckpointError(
            f"{root} holds no tokenizer: looked for {_JSON}, for {_WORDS} (BERT) and "
            f"for {' with '.join(_PAIRS)} (GPT-2, RoBERTa)."
        )
    _add_tokens(source, backend)
    return backend


def _word_pieces(source: _Source) -> Backend:
    """BERT's: whole words, then pieces of words."""
    if source.family != "bert":
        raise _not_of(source, _WORDS, "bert, distilbert")
    lines = _read_text(source.root / _WORDS).removesuffix("\n").split("\n")
    words = {line.rstrip(): number for number, line in enumerate(lines)}
    settings = source.settings
    backend = Backend(models.WordPiece(words))
    unknown, _ = _must_know(source, backend, "unk")
    backend.model.unk_token = unknown
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.post_processor = post_processors.BertProcessing(
        _must_know(source, backend, "sep"), _must_know(source, backend, "cls")
    )
    return backend


def _byte_pairs(source: _Source) -> Backend:
    """GPT-2's and RoBERTa's: merges of bytes."""
    if source.family not in ("gpt2", "roberta"):
        raise _not_of(source, " with ".join(_PAIRS), "gpt2, roberta")
    vocabulary, merges = (source.root / name for name in _PAIRS)
    backend = Backend(models.BPE(_read_json(vocabulary), _read_merges(merges)))
    spaced = source.settings.get("add_prefix_space", False)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    backend.decoder = decoders.ByteLevel()
    if source.family == "roberta":
        backend.post_processor = post_processors.RobertaProcessing(
            _must_know(source, backend, "sep"), _must_know(source, backend, "cls")
        )
    elif source.settings.get("add_bos_token", False):
        token, number = _must_know(source, backend, "bos")
        backend.post_processor = post_processors.TemplateProcessing(
            single=[token, "$A"],
            pair=[token, "$A", f"{token}:1", "$B:1"],
            special_tokens=[(token, number)],
        )
    return backend


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        if not line.strip("\r") or line.startswith("#version"):
            continue
        pair = line.strip("\r").split(" ")
        if len(pair) != 2:
            raise CheckpointError(f"{path}, line {number}: a merge is of two tokens.")
        merges.append((pair[0], pair[1]))
    return merges


def _add_tokens(source: _Source, backend: Backend) -> None:
    """Add what the folder adds to its vocabulary, under the ids it gives."""
    special = {token.content for token in source.named.values()}
    extra = _read_json(source.root / "added_tokens.json", missing={})
    added = {
        number: _added(content, content in special) for content, number in extra.items()
    }
    told = source.settings.get("added_tokens_decoder", {})
    added |= {
        int(number): _added(value, special=False) for number, value in told.items()
    }
    for number, token in sorted(added.items(), key=lambda item: item[0]):
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])
        found = backend.token_to_id(token.content)
        if found != number:
            raise CheckpointError(
                f"{source.root} gives the added token {token.content!r} the id "
                f"{number}, but after its vocabulary it would be {found}."
            )


def _must_know(source: _Source, backend: Backend, name: str) -> tuple[str, int]:
    token, number = source.named.get(name), _named_id(source, backend, name)
    if token is None or number is None:
        content = f", {token.content!r}," if token else ""
        raise CheckpointError(
            f"The vocabulary in {source.root} lacks the {name} token{content} without "
            f"which a model of type {source.kind} does not work."
        )
    return token.content, number


def _not_of(source: _Source, files: str, kinds: str) -> CheckpointError:
    return CheckpointError(
        f"{source.root} holds {files}, which is read for models of type {kinds}; "
        f"by its config.json and {_SETTINGS} the type is {source.kind}. Save it with "
        f"transformers to get a {_JSON}, which is read for every type."
    )


def _named_id(source: _Source, backend: Backend, name: str) -> int | None:
    token = source.named.get(name)
    return None if token is None else backend.token_to_id(token.content)


def _known_id(backend: Backend, value: Any) -> int | None:
    """An id that a file tells (a list tells the first), if it is a token."""
    number = value[0] if isinstance(value, list) and value else value
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        return None
    return None if backend.id_to_token(number) is None else number


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _read(path: Path) -> bytes:
    return read_limited(path, MAX_JSON, CheckpointError, f"{MAX_JSON} bytes")


def _read_text(path: Path) -> str:
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 at byte {error.start}.") from None


def _read_json(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.is_file():
        return missing
    try:
        loaded = json.loads(_read_text(path))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON.") from None
    if not isinstance(loaded, dict):
        raise CheckpointError(f"{path} does not hold a JSON object.")
    return loaded
