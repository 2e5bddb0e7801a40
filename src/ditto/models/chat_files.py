"""The chat template in a Hugging Face folder, as text."""

from dataclasses import dataclass, field
from pathlib import Path

from ditto.errors import CheckpointError
from ditto.files import JsonValue, read_limited
from ditto.models.json_file import read_object

MAX_TEMPLATE = 1 << 18
"""Bytes; the longest that are published have 30 kB."""
_FILE = "chat_template.jinja"
_SETTINGS = "tokenizer_config.json"
_TOKENS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@dataclass(frozen=True)
class ChatFiles:
    """What a folder says of conversations."""

    template: str | None = None
    """Jinja text; None if the model is not made for conversations."""
    special_tokens: dict[str, str] = field(default_factory=dict)
    """The texts that a template calls ``bos_token``, ``eos_token`` and so on."""


def read_chat_files(folder: str | Path) -> ChatFiles:
    """The template of ``chat_template.jinja``, or of ``tokenizer_config.json``."""
    root = Path(folder)
    settings = read_object(root / _SETTINGS, missing={})
    named = read_object(root / "special_tokens_map.json", missing={}) | settings
    tokens = {}
    for name in _TOKENS:
        match named.get(f"{name}_token"):
            case str(text) | {"content": str(text)}:
                tokens[f"{name}_token"] = text
    if (root / _FILE).is_file():
        limit = f"{MAX_TEMPLATE} bytes"
        content = read_limited(root / _FILE, MAX_TEMPLATE, CheckpointError, limit)
        try:
            template: str | None = content.decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{root / _FILE} is not UTF-8.") from None
    else:
        template = _default(settings.get("chat_template"), root / _SETTINGS)
    return ChatFiles(template, tokens)


def _default(value: JsonValue, path: Path) -> str | None:
    """A template, or the one of several that is called ``default``."""
    match value:
        case None:
            return None
        case str(text):
            templates = {"default": text}
        case list(rows):
            templates = {
                row["name"]: row["template"]
                for row in rows
                if isinstance(row, dict)
                and all(isinstance(row.get(key), str) for key in ("name", "template"))
            }
        case _:
            templates = {}
    template = templates.get("default")
    if template is None or len(template.encode("utf-8", "replace")) > MAX_TEMPLATE:
        raise CheckpointError(
            f"{path} has a chat_template that is no text of up to {MAX_TEMPLATE} "
            "bytes, and no list with one that is called 'default'."
        )
    return template
