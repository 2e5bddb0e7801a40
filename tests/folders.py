"""Small Hugging Face folders with random weights and real tokenizers."""

import json
from pathlib import Path

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)

from benchmarks.tiny_models import lead_clearly
from ditto.models import (
    Checkpoint,
    Model,
    random_model,
    write_checkpoint,
)

PIECES = """
[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on under mat tree red blue
old new house river and but not very small large ##s ##ed . , ?
"""
WORDS = PIECES.split()
TEXTS = [
    "the old cat sat on the mat .",
    "a dog ran under the red tree , but not very",
    "the river and the house ?",
    "small dogs sat .",
    "the very large blue house under the old tree and the new river .",
]


def bert_folder(path: Path, *, layers: int = 2, seed: int = 1) -> Path:
    """BERT for sequence classification with two labels."""
    model = random_model(
        "bert-tiny",
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=layers,
        vocab_size=len(WORDS),
        id2label={"0": "bad", "1": "good"},
        seed=seed,
    )
    write_model(path, model)
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return path


CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def _byte_pairs(special_tokens: list[str]) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    return backend


def llama_folder(path: Path, *, layers: int = 2) -> Path:
    """Llama for conversations: a token stands before every text, which the chat
    template writes as well."""
    backend = _byte_pairs(["<s>", "<|im_start|>", "<|im_end|>"])
    backend.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A"],
        pair=["<s>", "$A", "<s>:1", "$B:1"],
        special_tokens=[("<s>", 0)],
    )
    model = random_model(
        "llama-tiny",
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        vocab_size=backend.get_vocab_size(),
        max_position_embeddings=96,
        tie_word_embeddings=False,
        seed=3,
    )
    lead_clearly(model)
    write_model(path, model)
    backend.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "chat_template": CHAT,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def gpt2_folder(path: Path, *, layers: int = 2, positions: int = 1024) -> Path:
    """GPT-2 as a language model over bytes."""
    backend = _byte_pairs(["<|endoftext|>"])
    size = backend.get_vocab_size()
    model = random_model(
        "gpt2-tiny",
        hidden_size=32,
        num_hidden_layers=layers,
        vocab_size=size,
        tie_word_embeddings=False,
        seed=2,
    )
    table = model.params["embeddings"]["position"][:positions]
    model.params["embeddings"]["position"] = table
    lead_clearly(model)
    write_model(path, model.with_config(max_position_embeddings=positions))
    backend.save(str(path / "tokenizer.json"))
    return path


def write_model(path: Path, model: Model) -> None:
    write_checkpoint(Checkpoint(model.published, model.tensors()), path)
    assert json.loads((path / "config.json").read_text())["model_type"]
