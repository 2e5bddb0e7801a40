"""What a run starts from: a checkpoint's folder, or a configuration and nothing else.

Files of the tokenizer are put into a folder of their own first, and read from there: so
the tokens that a model is trained on are those that its readers will see.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ditto.client import Tokenizer
from ditto.errors import CheckpointError, SetupError
from ditto.files import Json, JsonValue
from ditto.models import PRESETS, Head, Model, read_checkpoint
from ditto.models.families import find_family
from ditto.models.formats import refuse_file
from ditto.models.hub import find_folder
from ditto.models.initial import head_config, new_model, with_head
from ditto.models.json_file import read_object
from ditto.models.model import changed, find_head, read_config
from ditto.models.sentence import NETWORK_SETTINGS
from ditto.models.tokenizer_files import TOKENIZER_FILES
from ditto.training.byte_pairs import write_tokenizer
from ditto.training.examples import read_plain_text
from ditto.training.settings import FinetuneSettings


@dataclass(frozen=True)
class Source:
    """A model with its tokenizer, to be trained."""

    model: Model
    tokenizer: Tokenizer
    drawn: tuple[str, ...]
    """The tensors that were drawn at random; none is named if all were."""


def known_labels(settings: FinetuneSettings) -> tuple[str, ...]:
    """The labels that the checkpoint, if there is one, was trained for."""
    if settings.model_name_or_path is None:
        return ()
    return checkpoint_labels(find_folder(settings.model_name_or_path))


def checkpoint_labels(folder: Path) -> tuple[str, ...]:
    """The labels of a folder's head, in their order."""
    refuse_file(folder)
    named = read_object(folder / "config.json", missing={}).get("id2label") or {}
    return tuple(str(named[key]) for key in sorted(named, key=int))


def open_source(
    settings: FinetuneSettings, head: Head, labels: Sequence[str], files: Path
) -> Source:
    """The model and the tokenizer; the tokenizer's files are put into ``files``."""
    if settings.model_name_or_path is not None:
        source = _from_checkpoint(settings, head, labels, files)
    else:
        source = _from_config(settings, head, labels, files)
    known, room = source.tokenizer.vocabulary, source.model.config.vocab_size
    if known > room:
        raise CheckpointError(
            f"The tokenizer knows {known} tokens, the model {room}: they do not belong "
            "together."
        )
    published = {**source.model.published}
    if published.get("pad_token_id") is None:
        published["pad_token_id"] = source.tokenizer.pad_id
    return replace(source, model=replace(source.model, published=published))


def _from_checkpoint(
    settings: FinetuneSettings, head: Head, labels: Sequence[str], files: Path
) -> Source:
    folder = find_folder(str(settings.model_name_or_path))
    checkpoint = read_checkpoint(folder)
    _check_head(checkpoint.config, head)
    loaded = with_head(checkpoint, head, labels, settings.seed)
    copy_tokenizer(folder, files)
    _write_config(files, loaded.model.published)
    return Source(loaded.model, Tokenizer.load(files), loaded.drawn)


def _from_config(
    settings: FinetuneSettings, head: Head, labels: Sequence[str], files: Path
) -> Source:
    config = read_model_config(str(settings.config_name), settings.config_overrides)
    _check_head(config, head)
    if settings.tokenizer_name is not None:
        copy_tokenizer(settings.tokenizer_name, files)
    else:
        text = _text_of_tokenizer(settings, head)
        family = find_family(config["model_type"])
        length = read_config(family, config).max_tokens
        size = config["vocab_size"]
        write_tokenizer(files, config["model_type"], text, size, length)
    _write_config(files, {"model_type": config["model_type"]})
    tokenizer = Tokenizer.load(files)
    config["vocab_size"] = tokenizer.vocabulary
    if tokenizer.eos_id is not None:
        config |= {"bos_token_id": tokenizer.eos_id, "eos_token_id": tokenizer.eos_id}
    family = find_family(config["model_type"])
    published = head_config(family, config, find_head(family, head), labels)
    return Source(new_model(published, settings.seed), tokenizer, ())


def _text_of_tokenizer(settings: FinetuneSettings, head: Head) -> str:
    if head is not Head.TEXT_GENERATION:
        raise SetupError(
            "A tokenizer is trained on plain text (.txt) alone: name one with "
            "tokenizer_name."
        )
    return read_plain_text(settings.train_file)


def read_model_config(name: str, overrides: str | None) -> Json:
    """A configuration of a file or a preset, with changes such as ``n_layer=4``."""
    if name in PRESETS:
        config: Json = {**PRESETS[name]}
    elif Path(name).is_file():
        config = read_object(Path(name))
    else:
        raise SetupError(
            f"config_name {name!r} is neither a JSON file nor one of: "
            f"{', '.join(PRESETS)}."
        )
    family = find_family(config.get("model_type"))
    known = {field.name for field in fields(read_config(family, config))}  # type: ignore[arg-type]
    known |= {*config, *family.attribute_map, "initializer_range"}
    changes: Json = {}
    for part in (overrides or "").split(",") if overrides else ():
        key, sign, value = part.strip().partition("=")
        if not sign or key not in known:
            raise SetupError(
                f"config_overrides has {part.strip()!r}: write name=value, with names "
                f"of {', '.join(sorted(known))}."
            )
        changes[key] = _value(value)
    return changed(family, config, changes)


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check_head(config: Mapping[str, JsonValue], head: Head) -> None:
    family = find_family(config.get("model_type"))
    if head in family.heads:
        return
    if head is Head.TEXT_GENERATION:
        raise SetupError(
            f"A {family.model_type} model does not write text. To train it on plain "
            "text is not possible; for a classifier give a TSV, CSV or JSONL file."
        )
    raise SetupError(f"A {family.model_type} model has no head {head.value!r}.")


def copy_tokenizer(folder: Path, files: Path) -> None:
    """Put the files of a folder's tokenizer into another."""
    for name in TOKENIZER_FILES:
        if name != NETWORK_SETTINGS and (folder / name).is_file():
            shutil.copyfile(folder / name, files / name)


def _write_config(files: Path, published: Mapping[str, JsonValue]) -> None:
    """For the tokenizer's reader: older files do not say what they are of."""
    (files / "config.json").write_text(json.dumps(dict(published)) + "\n")
