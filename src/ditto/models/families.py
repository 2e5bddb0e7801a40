"""The one table of families: a row for each ``model_type``.

The table names modules instead of importing them, so that a client, which needs no more
than the layout of a tokenizer, does not load JAX.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ditto.errors import CheckpointError
from ditto.models.tokenizer_layout import (
    BYTE_PAIRS,
    BYTE_PAIRS_OF_ENCODERS,
    ONLY_JSON,
    ONLY_JSON_OF_DECODERS,
    WORD_PIECES,
    WORD_PIECES_BY_ROBERTA,
    TokenizerLayout,
)

if TYPE_CHECKING:
    from ditto.models.family import AnyFamily


@dataclass(frozen=True)
class Row:
    """Where a ``Family`` stands, and the layout of its tokenizer's older files."""

    module: str
    name: str
    tokenizer: TokenizerLayout


FAMILIES: dict[str, Row] = {
    "bert": Row("ditto.models.bert", "BERT", WORD_PIECES),
    "distilbert": Row("ditto.models.bert", "DISTILBERT", WORD_PIECES),
    "roberta": Row("ditto.models.bert", "ROBERTA", BYTE_PAIRS_OF_ENCODERS),
    "xlm-roberta": Row("ditto.models.bert", "XLM_ROBERTA", ONLY_JSON),
    "mpnet": Row("ditto.models.bert", "MPNET", WORD_PIECES_BY_ROBERTA),
    "modernbert": Row("ditto.models.modernbert", "MODERNBERT", ONLY_JSON),
    "gpt2": Row("ditto.models.gpt2", "GPT2", BYTE_PAIRS),
    "llama": Row("ditto.models.llama", "LLAMA", ONLY_JSON_OF_DECODERS),
    "mistral": Row("ditto.models.llama", "MISTRAL", ONLY_JSON_OF_DECODERS),
    "qwen2": Row("ditto.models.llama", "QWEN2", ONLY_JSON_OF_DECODERS),
    "qwen3": Row("ditto.models.llama", "QWEN3", ONLY_JSON_OF_DECODERS),
}


def check_family(model_type: object) -> Row:
    """The row of a ``model_type``; raises CheckpointError if there is none."""
    row = FAMILIES.get(str(model_type))
    if row is None:
        raise CheckpointError(
            f"Models of type {model_type!r} are not supported; these are: "
            f"{', '.join(FAMILIES)}."
        )
    return row


def find_family(model_type: object) -> "AnyFamily":
    """The family of a ``model_type``; raises CheckpointError if there is none."""
    row = check_family(model_type)
    family: AnyFamily = getattr(import_module(row.module), row.name)
    return family
