"""A byte-level tokenizer of one's own, learnt from a text."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ditto.errors import SetupError
from ditto.models.families import check_family
from ditto.models.tokenizer_layout import TokenizerLayout

_BYTES = 256


def write_tokenizer(
    folder: Path, model_type: object, text: str, vocab_size: int, length: int
) -> None:
    """Learn byte pairs from a text, and write the files that a folder of this
    ``model_type`` has for them: any text has tokens, and none is unknown."""
    layout = check_family(model_type).tokenizer
    if layout.files != "byte-pairs":
        raise SetupError(
            f"No tokenizer is trained for a {model_type} model: name one with "
            "tokenizer_name."
        )
    special = [*dict.fromkeys(layout.special_tokens.values())]
    least = _BYTES + len(special)
    if vocab_size < least:
        raise SetupError(
            f"A vocabulary of {vocab_size} tokens has no room for all bytes: it must "
            f"be {least} at least."
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = _settings(layout, length)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _settings(layout: TokenizerLayout, length: int) -> dict[str, object]:
    tokens = {f"{name}_token": text for name, text in layout.special_tokens.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        "clean_up_tokenization_spaces": False,
        **tokens,
    }
