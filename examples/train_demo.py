"""Train the small classifier that ``ditto demo`` asks, from nothing but texts.

A vocabulary of word pieces is learnt from the texts, then a BERT of two layers is
trained on them: half a million weights, stored in half precision. It needs the extra
'train'. SST-2 comes with GLUE.

Run it: python examples/train_demo.py --data glue/sst2 --out demo-model
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from safetensors.numpy import load_file, save_file
from tokenizers import BertWordPieceTokenizer

from ditto.training.finetune import Finetuned, finetune
from ditto.training.progress import Progress
from ditto.training.settings import FinetuneSettings

SIZE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "vocab_size": 4096,
    "max_position_embeddings": 64,
}
LABELS = {"0": "negative", "1": "positive"}
KEPT = ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json")


def main(
    data: Annotated[Path, typer.Option(help="Folder with train.tsv and dev.tsv.")],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist.")],
    epochs: Annotated[float, typer.Option(min=0.01, help="Times to see them.")] = 3.0,
) -> None:
    """Train the small classifier that `ditto demo` asks."""
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_vocabulary(data / "train.tsv", place)
        done = train(data, place, epochs)
        for file in KEPT:
            if (done.folder / file).is_file():
                shutil.copyfile(done.folder / file, out / file)
    halve(out / "model.safetensors")
    name_labels(out / "config.json")
    scores = ", ".join(f"{k} {v:.4f}" for k, v in done.trained.scores.items())
    typer.echo(f"{out}: {done.model.size:,} weights; {scores}")


def write_vocabulary(texts: Path, folder: Path) -> None:
    """Word pieces of the first column."""
    lines = texts.read_text(encoding="utf-8").splitlines()[1:]
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(
        (line.split("\t")[0] for line in lines),
        vocab_size=SIZE["vocab_size"],
        show_progress=False,
    )
    tokenizer.save_model(str(folder))
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(told) + "\n")


def train(data: Path, place: Path, epochs: float) -> Finetuned:
    """A new model on the texts."""

    def show(now: Progress) -> None:
        if now.is_logged or now.scores:
            typer.echo(f"step {now.step} of {now.total_steps}: loss {now.loss:.4f}")

    return finetune(
        FinetuneSettings(
            config_name="bert-base",
            config_overrides=",".join(f"{k}={v}" for k, v in SIZE.items()),
            tokenizer_name=place,
            task_name="sst2",
            train_file=data / "train.tsv",
            validation_file=data / "dev.tsv",
            output_dir=place / "model",
            max_seq_length=SIZE["max_position_embeddings"],
            length_buckets=(16, 32),
            per_device_train_batch_size=64,
            num_train_epochs=epochs,
            learning_rate=1e-3,
            weight_decay=0.1,
            logging_steps=100,
        ),
        on_progress=show,
    )


def halve(file: Path) -> None:
    """Store the weights in half precision."""
    arrays = {name: a.astype(np.float16) for name, a in load_file(file).items()}
    save_file(arrays, file, {"format": "pt"})


def name_labels(file: Path) -> None:
    """Say what 0 and 1 are."""
    config = json.loads(file.read_text())
    config |= {"id2label": LABELS, "label2id": {v: int(k) for k, v in LABELS.items()}}
    file.write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
