"""Models with random weights and tokenizers of few words, where they do not matter."""

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ditto.models import Checkpoint, Model, random_model, write_checkpoint

TEXTS = [
    "the old cat sat on the mat .",
    "a dog ran under the red tree , but not very",
    "the river and the house ?",
    "small dogs sat .",
    "the very large blue house under the old tree and the new river .",
    "red tree",
    "a new cat and a very old dog ran under the house , but the river sat .",
]
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert_folder(path: Path) -> Path:
    """BERT for sequence classification with two labels."""
    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = [*_SPECIAL, *words, "##s"]
    model = random_model(
        "bert-tiny",
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=1,
        vocab_size=len(vocabulary),
        id2label={"0": "bad", "1": "good"},
        seed=1,
    )
    _write(path, model)
    (path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return path


def gpt2_folder(path: Path) -> Path:
    """GPT-2 as a language model over bytes."""
    backend = _byte_pairs()
    model = random_model(
        "gpt2-tiny",
        hidden_size=32,
        num_hidden_layers=1,
        vocab_size=backend.get_vocab_size(),
        tie_word_embeddings=False,
        seed=2,
    )
    lead_clearly(model)
    table = model.params["embeddings"]["position"][:64]
    model.params["embeddings"]["position"] = table
    _write(path, model.with_config(max_position_embeddings=64))
    backend.save(str(path / "tokenizer.json"))
    return path


def llama_folder(path: Path) -> Path:
    """Llama likewise, of two layers."""
    backend = _byte_pairs()
    model = random_model(
        "llama-tiny",
        hidden_size=32,
        intermediate_size=48,
        vocab_size=backend.get_vocab_size(),
        max_position_embeddings=64,
        seed=2,
    )
    _write(path, model)
    backend.save(str(path / "tokenizer.json"))
    return path


def lead_clearly(model: Model) -> None:
    """Have tokens follow each other in a circle, by a wide lead; no special one does.

    The best two tokens of random weights may be as close as the parties' error.
    """
    words = model.params["embeddings"]["word"]
    special, others = words[:3], words[3:]
    lasts = np.concatenate([special, np.roll(others, 11, axis=0)])
    model.params["lm_head"]["w"] = lasts.T
    model.params["embeddings"]["word"] = 8 * words


def _byte_pairs() -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    return backend


def _write(path: Path, model: Model) -> None:
    write_checkpoint(Checkpoint(model.published, model.tensors()), path)


def write_tiny_glue(folder: Path) -> tuple[Path, str]:
    """CoLA's files with sentences of few words, and an encoder that knows the words: a
    sentence is acceptable if a cat is in it."""
    data, encoder = folder / "glue", folder / "encoder"
    (data / "cola").mkdir(parents=True, exist_ok=True)
    nouns = ("cat", "dog", "tree", "house")
    for name, count in (("train", 96), ("dev", 24)):
        lines = ["sentence\tlabel"]
        for k in range(count):
            noun, rest = nouns[k % 4 if k % 2 else 0], TEXTS[k % 3].split()[-3:]
            lines.append(f"the {noun} {' '.join(rest)}\t{int(noun == 'cat')}")
        (data / "cola" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    if not encoder.exists():
        encoder.mkdir()
        bert_folder(encoder)
    return data, str(encoder)
