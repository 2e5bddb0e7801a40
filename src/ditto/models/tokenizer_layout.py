"""How a family's tokenizer is built from the older files, without tokenizer.json."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class TokenizerLayout:
    """What the files do not say: how they are read, and the special tokens."""

    files: Literal["word-pieces", "byte-pairs", "tokenizer.json"]
    """vocab.txt, or vocab.json with merges.txt, or nothing that is older."""
    special_tokens: Mapping[str, str]
    """By name: bos, eos, unk, sep, pad, cls, mask."""
    around: Literal["cls sep", "cls sep sep", "bos if asked"]
    """What stands around texts: one sep between two, or two, or nothing but a bos
    before each where ``add_bos_token`` says so."""
    mask_takes_space: bool = False
    """Whether the mask token includes the space before it."""


WORD_PIECES = TokenizerLayout(
    "word-pieces",
    {name: f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    "cls sep",
)
BYTE_PAIRS = TokenizerLayout(
    "byte-pairs",
    dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>"),
    "bos if asked",
)
BYTE_PAIRS_OF_ENCODERS = TokenizerLayout(
    "byte-pairs",
    {
        "bos": "<s>",
        "eos": "</s>",
        "unk": "<unk>",
        "sep": "</s>",
        "pad": "<pad>",
        "cls": "<s>",
        "mask": "<mask>",
    },
    "cls sep sep",
    mask_takes_space=True,
)
WORD_PIECES_BY_ROBERTA = replace(
    BYTE_PAIRS_OF_ENCODERS,
    files="word-pieces",
    special_tokens={**BYTE_PAIRS_OF_ENCODERS.special_tokens, "unk": "[UNK]"},
)
"""BERT's words, with RoBERTa's tokens around texts."""
ONLY_JSON = replace(BYTE_PAIRS_OF_ENCODERS, files="tokenizer.json")
"""Of whose older files, such as those of sentencepiece, none is read."""
ONLY_JSON_OF_DECODERS = TokenizerLayout("tokenizer.json", {}, "bos if asked")
"""The same of families whose special tokens are whatever a folder names."""
