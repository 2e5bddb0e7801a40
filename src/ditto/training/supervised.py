"""Learning from labels: the classes of texts, or the tokens that follow.

The loss is the mean cross entropy, in float32, through the model functions that are
otherwise only run.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ditto.errors import SetupError
from ditto.evaluation.metrics import accuracy, f1, matthews, perplexity
from ditto.fixedpoint import Array
from ditto.models import Head, Model
from ditto.plan import Tree
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.objective import Evaluate, Loss, Metric, Objective
from ditto.training.progress import OnEvaluation, Scores
from ditto.training.unfused import with_unfused_activations

Logits = Callable[[Tree, TrainingBatch], jax.Array]
"""Of parameters and a batch: (B, labels), or (B, S, vocabulary)."""

METRICS = {
    "accuracy": Metric("accuracy", greater_is_better=True),
    "matthews": Metric("matthews", greater_is_better=True),
    "f1": Metric("f1", greater_is_better=True),
    "perplexity": Metric("perplexity", greater_is_better=False),
    "loss": Metric("loss", greater_is_better=False),
    "hidden_loss": Metric("hidden_loss", greater_is_better=False),
    "agreement": Metric("agreement", greater_is_better=True),
}


def find_metric(name: str) -> Metric:
    """A metric by its name."""
    if name not in METRICS:
        raise SetupError(
            f"There is no metric {name!r} to tell the best model by; there are: "
            f"{', '.join(METRICS)}."
        )
    return METRICS[name]


def logits_of(model: Model) -> Logits:
    """The float model as a function of its parameters and a batch."""
    tells_texts_apart = model.config.type_vocab_size > 1
    apply = with_unfused_activations(model.apply)

    def logits(params: Tree, batch: TrainingBatch) -> jax.Array:
        types = (batch.types,) if tells_texts_apart else ()
        return jnp.asarray(apply(params, batch.ids, batch.mask, *types))

    return logits


def supervised(
    model: Model, validation: Batches | None, metric: Metric | None
) -> Objective:
    """Cross entropy with the labels, and the scores on the validation data."""
    logits = logits_of(model)
    if validation is None:
        return Objective(cross_entropy(logits))
    scores = language_scores if model.head is Head.TEXT_GENERATION else class_scores
    return Objective(cross_entropy(logits), scores(logits, validation), metric)


def cross_entropy(logits: Logits) -> Loss:
    """The mean over all labels that count."""

    def loss(params: Tree, batch: TrainingBatch, _: Tree) -> jax.Array:
        losses = _losses(logits(params, batch), batch)
        return jnp.asarray(losses.sum() / batch.weights.sum())

    return loss


def _losses(logits: jax.Array, batch: TrainingBatch) -> jax.Array:
    each = optax.softmax_cross_entropy_with_integer_labels(logits, batch.labels)
    return jnp.asarray(each * batch.weights)


def class_scores(logits: Logits, data: Batches) -> Evaluate:
    """Accuracy, Matthews' correlation, the mean loss, and F1 of two classes."""

    @jax.jit
    def outcome(params: Tree, batch: TrainingBatch) -> tuple[jax.Array, jax.Array]:
        values = logits(params, batch)
        return values.argmax(-1), _losses(values, batch)

    def evaluate(params: Tree, on_batch: OnEvaluation) -> Scores:
        right: list[Array] = []
        predictions: list[Array] = []
        losses: list[Array] = []
        batches = [*data.in_order()]
        for k, batch in enumerate(batches):
            on_batch(k, len(batches))
            counts = batch.weights > 0
            classes, values = outcome(params, batch)
            right.append(batch.labels[counts])
            predictions.append(np.asarray(classes)[counts])
            losses.append(np.asarray(values)[counts])
        labels, classes = np.concatenate(right), np.concatenate(predictions)
        scores = {
            "accuracy": accuracy(labels, classes),
            "matthews": matthews(labels, classes),
            "loss": float(np.concatenate(losses).mean(dtype=np.float64)),
        }
        if max(labels.max(), classes.max()) == 1:
            scores["f1"] = f1(labels, classes)
        return scores

    return evaluate


def language_scores(logits: Logits, data: Batches) -> Evaluate:
    """Perplexity per token, and the mean loss."""

    @jax.jit
    def total(params: Tree, batch: TrainingBatch) -> jax.Array:
        return _losses(logits(params, batch), batch).sum()

    def evaluate(params: Tree, on_batch: OnEvaluation) -> Scores:
        lost, tokens = 0.0, 0.0
        batches = [*data.in_order()]
        for k, batch in enumerate(batches):
            on_batch(k, len(batches))
            lost += float(total(params, batch))
            tokens += float(batch.weights.sum())
        loss = lost / tokens
        return {"perplexity": perplexity(loss), "loss": loss}

    return evaluate
