"""Teach an encoder to classify texts, and publish it as a Hugging Face folder.

A new head is put on an encoder such as all-MiniLM-L6-v2, and all of it is trained with
AdamW on a GLUE task. The folder that comes out is read by ``ditto.from_pretrained``,
by ``ditto eval`` and by transformers alike. It needs the extra 'train'.

Run it: python examples/finetune_classifier.py ENCODER_DIR --task sst2 --data glue/sst2
--out my-sst2
"""

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import typer
from rich.progress import Progress

from ditto.client import Tokenizer
from ditto.client.tokens import Batch, Encoded, bucket_of, pad_batch
from ditto.evaluation.metrics import score
from ditto.evaluation.tasks import TASKS, Example, read_examples
from ditto.models import (
    Checkpoint,
    Head,
    Model,
    from_checkpoint,
    random_model,
    read_checkpoint,
    write_checkpoint,
)
from ditto.models.families import find_family
from ditto.models.layers import Params

TOKENIZER_FILES = ("token*.json", "special_tokens_map.json", "vocab*", "merges.txt")

Labelled = tuple[Batch, np.ndarray]


def main(
    encoder: Annotated[Path, typer.Argument(help="A Hugging Face folder.")],
    task: Annotated[str, typer.Option(help=f"One of: {', '.join(TASKS)}.")],
    data: Annotated[Path, typer.Option(help="Folder with train.tsv and dev.tsv.")],
    out: Annotated[Path, typer.Option(help="Folder to write; made if missing.")],
    limit: Annotated[int, typer.Option(min=1, help="Texts to learn from.")] = 8000,
    epochs: Annotated[int, typer.Option(min=1, help="Times to see them.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Texts in a step.")] = 32,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 1e-4,
    length: Annotated[int, typer.Option(min=8, help="Tokens seen of a text.")] = 128,
    seed: Annotated[int, typer.Option(min=0, help="Of head and order.")] = 0,
) -> None:
    """Teach an encoder to classify texts, and publish it as a Hugging Face folder."""
    learnt = read_examples(task, data / "train.tsv", limit)
    held_out = read_examples(task, data)
    model = with_classifier(read_checkpoint(encoder), TASKS[task].labels, seed)
    tokenizer = Tokenizer.load(encoder)

    def tokens(examples: Sequence[Example]) -> list[tuple[Encoded, int]]:
        longest = min(length, model.max_tokens)
        return [
            (tokenizer.encode(example.text, example.pair, longest), example.label)
            for example in examples
        ]

    seen, unseen = tokens(learnt), tokens(held_out)
    steps = epochs * math.ceil(len(seen) / batch)
    schedule = optax.warmup_cosine_decay_schedule(0.0, rate, steps // 10 + 1, steps + 1)
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01)
    )
    step = jax.jit(training_step(model, optimizer))
    params, state = model.params, optimizer.init(model.params)
    rng = np.random.default_rng(seed)
    losses: list[float] = []
    with Progress() as bar:
        progress = bar.add_task("training", total=steps)
        for _ in range(epochs):
            for labelled in batches(seen, batch, tokenizer.pad_id, rng):
                params, state, loss = step(params, state, *arrays(labelled))
                losses.append(float(loss))
                said = f"step {len(losses)}: loss {np.mean(losses[-50:]):.3f}"
                bar.update(progress, advance=1, description=said)
    model = replace(model, params=params)

    write_checkpoint(Checkpoint(model.published, model.tensors()), out)
    for pattern in TOKENIZER_FILES:
        for file in encoder.glob(pattern):
            shutil.copyfile(file, out / file.name)
    labels, found = predictions(model, unseen, batch, tokenizer.pad_id)
    figures = score(TASKS[task].metric, labels, found)
    print(f"learnt from {len(seen)} texts: loss {np.mean(losses[-50:]):.3f}")
    print(f"wrote {out}")
    for name, figure in figures.items():
        print(f"{name} {figure:.3f} on {len(unseen)} texts that it had not seen")


def with_classifier(checkpoint: Checkpoint, labels: Sequence[str], seed: int) -> Model:
    """The encoder of a checkpoint, under a head for these labels.

    What the checkpoint has no weights for, the head at least, is drawn at random.
    """
    family = find_family(checkpoint.config.get("model_type"))
    architecture = next(
        name
        for name, head in family.architectures.items()
        if head is Head.TEXT_CLASSIFICATION
    )
    published = {
        **checkpoint.config,
        "architectures": [architecture],
        "id2label": {str(k): label for k, label in enumerate(labels)},
        "label2id": {label: k for k, label in enumerate(labels)},
    }
    tensors = random_model(published, seed=seed).tensors()
    for name in tensors:
        for saved in (name, name.removeprefix(family.base_model_prefix)):
            if saved in checkpoint.tensors and "classifier" not in name:
                tensors[name] = checkpoint.tensors[saved]
    return from_checkpoint(Checkpoint(published, tensors))


def batches(
    seen: Sequence[tuple[Encoded, int]],
    size: int,
    pad_id: int,
    rng: np.random.Generator | None = None,
) -> Iterator[Labelled]:
    """All texts, those of about one length together; in random order, given ``rng``."""
    order = np.arange(len(seen)) if rng is None else rng.permutation(len(seen))
    nearby = 50 * size  # sorted by length, and no further, or the order says something
    groups = [
        sorted(order[k : k + nearby], key=lambda i: len(seen[i][0].ids))
        for k in range(0, len(order), nearby)
    ]
    parts = [
        group[k : k + size] for group in groups for k in range(0, len(group), size)
    ]
    for k in np.arange(len(parts)) if rng is None else rng.permutation(len(parts)):
        texts = [seen[i][0] for i in parts[k]]
        padded = bucket_of(max(len(text.ids) for text in texts))
        labels = np.array([seen[i][1] for i in parts[k]])
        yield pad_batch(texts, padded, pad_id), labels


def arrays(labelled: Labelled) -> tuple[np.ndarray, ...]:
    """What the training step takes."""
    batch, labels = labelled
    return batch.ids, batch.mask, batch.types, labels


def training_step(model: Model, optimizer: Any) -> Any:
    """A function of parameters, optimizer's state and a batch: one step down."""

    def loss(
        params: Params,
        ids: jax.Array,
        mask: jax.Array,
        types: jax.Array,
        labels: jax.Array,
    ) -> jax.Array:
        logits = logits_of(model, params, ids, mask, types)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params: Params, state: Any, *batch: jax.Array) -> Any:
        lost, gradient = jax.value_and_grad(loss)(params, *batch)
        change, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, change), state, lost

    return step


def logits_of(
    model: Model, params: Params, ids: jax.Array, mask: jax.Array, types: jax.Array
) -> jax.Array:
    """Of a batch; only some encoders tell the two texts of a pair apart."""
    tells = model.config.type_vocab_size > 1
    return model.apply(params, ids, mask, *((types,) if tells else ()))


def predictions(
    model: Model, unseen: Sequence[tuple[Encoded, int]], size: int, pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """The right labels and the model's."""
    apply = jax.jit(lambda *inputs: logits_of(model, model.params, *inputs))
    right, found = [], []
    for batch, labels in batches(unseen, size, pad_id):
        right.append(labels)
        logits = jnp.asarray(apply(batch.ids, batch.mask, batch.types))
        found.append(np.asarray(logits.argmax(axis=-1)))
    return np.concatenate(right), np.concatenate(found)


if __name__ == "__main__":
    typer.run(main)
