"""The tokenizer in a Hugging Face folder, without transformers.

A folder as ``save_pretrained`` writes it, read by the ``tokenizers`` library alone:
``tokenizer.json``, or the older files in the layout of the model's family. Tokens are
those of transformers. Nothing in the folder is executed, and every file is read with a
limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers import processors as post_processors

from ditto.errors import CheckpointError
from ditto.files import JsonValue
from ditto.models.families import FAMILIES
from ditto.models.json_file import read_bytes, read_object
from ditto.models.sentence import NETWORK_SETTINGS
from ditto.models.tokenizer_layout import TokenizerLayout

_JSON = "tokenizer.json"
_WORDS = "vocab.txt"
_PAIRS = ("vocab.json", "merges.txt")
_SETTINGS = "tokenizer_config.json"
TOKENIZER_FILES = (
    _JSON,
    _SETTINGS,
    "special_tokens_map.json",
    "added_tokens.json",
    _WORDS,
    *_PAIRS,
    "chat_template.jinja",
    NETWORK_SETTINGS,
)
"""All that decides which tokens a text has."""
_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@dataclass(frozen=True)
class TokenizerFiles:
    """What the files of a folder say."""

    backend: Backend
    pad_id: int
    eos_id: int | None
    truncation_side: str
    mask_token: str | None
    """What stands for a word that is asked for."""


def read_tokenizer(folder: str | Path) -> TokenizerFiles:
    """The tokenizer in a Hugging Face folder; refuses what it cannot read."""
    source = _read_source(Path(folder))
    try:
        return _with_ids(source, _build(source))
    except CheckpointError:
        raise
    except Exception as error:  # the library raises bare exceptions
        raise CheckpointError(
            f"The tokenizer in {source.root} cannot be read: {error}"
        ) from None


def _with_ids(source: "_Source", backend: Backend) -> TokenizerFiles:
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
    if read_object(source.root / NETWORK_SETTINGS, missing={}).get("do_lower_case"):
        before = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    mask = source.named.get("mask")
    known_mask = _named_id(source, backend, "mask") is not None
    return TokenizerFiles(
        backend,
        0 if pad is None else pad,
        eos,
        side or "right",
        mask.content if mask and known_mask else None,
    )


@dataclass(frozen=True)
class _Source:
    """What a folder says of its tokenizer, beside the vocabulary."""

    root: Path
    model_type: str | None
    config: Mapping[str, JsonValue]
    settings: Mapping[str, JsonValue]
    named: Mapping[str, AddedToken]

    @property
    def layout(self) -> TokenizerLayout | None:
        row = FAMILIES.get(str(self.model_type))
        return None if row is None else row.tokenizer


def _read_source(root: Path) -> _Source:
    if not root.is_dir():
        raise CheckpointError(f"{root} is not a folder.")
    config = read_object(root / "config.json", missing={})
    settings = read_object(root / _SETTINGS, missing={})
    told = read_object(root / "special_tokens_map.json", missing={}) | settings
    model_type = config.get("model_type") or _type_of(settings.get("tokenizer_class"))
    if model_type is None and (root / _WORDS).is_file():
        model_type = "bert"
    source = _Source(root, model_type, config, settings, {})
    return replace(source, named=_named(told, _defaults(source.layout)))


def _defaults(layout: TokenizerLayout | None) -> dict[str, AddedToken]:
    """The special tokens that a family has unless the folder names others."""
    if layout is None:
        return {}
    return {
        name: AddedToken(
            content,
            lstrip=name == "mask" and layout.mask_takes_space,
            normalized=False,
            special=True,
        )
        for name, content in layout.special_tokens.items()
    }


def _type_of(tokenizer_class: object) -> str | None:
    if not isinstance(tokenizer_class, str):
        return None
    return tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer").lower()


def _named(
    told: Mapping[str, JsonValue], defaults: Mapping[str, AddedToken]
) -> dict[str, AddedToken]:
    named = dict(defaults)
    for name in _NAMES:
        value = told.get(f"{name}_token")
        if value is None and f"{name}_token" in told:
            named.pop(name, None)
        elif value is not None and (name not in named or value != named[name].content):
            named[name] = _added(value, special=True)
    return named


def _added(value: object, special: bool) -> AddedToken:
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
        return Backend.from_buffer(read_bytes(root / _JSON))
    if (root / _WORDS).is_file():
        backend = _word_pieces(source)
    elif all((root / name).is_file() for name in _PAIRS):
        backend = _byte_pairs(source)
    else:
        raise CheckpointError(
            f"{root} holds no tokenizer: looked for {_JSON}, for {_WORDS} "
            f"({_types_with('word-pieces')}) and for {' with '.join(_PAIRS)} "
            f"({_types_with('byte-pairs')})."
        )
    _add_tokens(source, backend)
    return backend


def _word_pieces(source: _Source) -> Backend:
    """Whole words, then pieces of words."""
    if source.layout is None or source.layout.files != "word-pieces":
        raise _not_of(source, _WORDS, _types_with("word-pieces"))
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
    _put_around(source, backend, source.layout)
    return backend


def _byte_pairs(source: _Source) -> Backend:
    """Merges of bytes."""
    if source.layout is None or source.layout.files != "byte-pairs":
        raise _not_of(source, " with ".join(_PAIRS), _types_with("byte-pairs"))
    vocabulary, merges = (source.root / name for name in _PAIRS)
    backend = Backend(models.BPE(read_object(vocabulary), _read_merges(merges)))
    spaced = source.settings.get("add_prefix_space", False)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    backend.decoder = decoders.ByteLevel()
    _put_around(source, backend, source.layout)
    return backend


def _put_around(source: _Source, backend: Backend, layout: TokenizerLayout) -> None:
    """Say which tokens stand around texts, and between the two of a pair."""
    match layout.around:
        case "cls sep":
            backend.post_processor = post_processors.BertProcessing(
                _must_know(source, backend, "sep"), _must_know(source, backend, "cls")
            )
        case "cls sep sep":
            backend.post_processor = post_processors.RobertaProcessing(
                _must_know(source, backend, "sep"), _must_know(source, backend, "cls")
            )
        case "bos if asked" if source.settings.get("add_bos_token", False):
            token, number = _must_know(source, backend, "bos")
            backend.post_processor = post_processors.TemplateProcessing(
                single=[token, "$A"],
                pair=[token, "$A", f"{token}:1", "$B:1"],
                special_tokens=[(token, number)],
            )


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
    extra = read_object(source.root / "added_tokens.json", missing={})
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
            f"which a model of type {source.model_type} does not work."
        )
    return token.content, number


def _types_with(files: str) -> str:
    rows = FAMILIES.items()
    return ", ".join(sorted(n for n, row in rows if row.tokenizer.files == files))


def _not_of(source: _Source, files: str, types: str) -> CheckpointError:
    return CheckpointError(
        f"{source.root} holds {files}, which is read for models of type {types}; "
        f"by its config.json and {_SETTINGS} the type is {source.model_type}. Save it "
        f"with transformers to get a {_JSON}, which is read for every type."
    )


def _named_id(source: _Source, backend: Backend, name: str) -> int | None:
    token = source.named.get(name)
    return None if token is None else backend.token_to_id(token.content)


def _known_id(backend: Backend, value: object) -> int | None:
    """An id that a file tells (a list tells the first), if it is a token."""
    number = value[0] if isinstance(value, list) and value else value
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        return None
    return None if backend.id_to_token(number) is None else number


def _first(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 at byte {error.start}.") from None
