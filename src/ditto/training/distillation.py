"""Making a student's answers those of its teacher.

Source: Ditto, "Quantization-aware Distillation", after MPCFormer: first
the hidden states of all layers by their mean squared error, then the logits.

A student is any function of parameters and a batch that gives logits and hidden states:
a float model with another activation, or a plan in the parties' own arithmetic.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ditto.models import Model
from ditto.plan import Tree
from ditto.training.batches import Batches, TrainingBatch
from ditto.training.objective import Evaluate, Loss
from ditto.training.progress import OnEvaluation, Scores
from ditto.training.supervised import Logits
from ditto.training.unfused import with_unfused_activations

Outputs = tuple[jax.Array, Sequence[jax.Array]]
"""Logits, and hidden states (B, S, H): the embeddings and what every layer makes; none
of a plan, which makes no more than it is asked for."""
Traced = Callable[[Tree, TrainingBatch], Outputs]
"""Of parameters and a batch."""


def traced(model: Model) -> Traced:
    """The float model, with its hidden states."""
    tells_texts_apart = model.config.type_vocab_size > 1
    trace = with_unfused_activations(model.trace)

    def outputs(params: Tree, batch: TrainingBatch) -> Outputs:
        types = (batch.types,) if tells_texts_apart else ()
        states, logits = trace(params, batch.ids, batch.mask, *types)
        return logits, states

    return outputs


def logits_alone(student: Traced) -> Logits:
    """The same without hidden states."""
    return lambda params, batch: student(params, batch)[0]


def hidden_loss(student: Traced, teacher: Traced) -> Loss:
    """The mean squared error of all hidden states, where there is text.

    What is frozen are the teacher's parameters.
    """

    def loss(params: Tree, batch: TrainingBatch, frozen: Tree) -> jax.Array:
        _, states = student(params, batch)
        _, expected = teacher(frozen, batch)
        return hidden_error(states, expected, batch)

    return loss


def logit_loss(
    student: Traced, teacher: Traced, temperature: float, hidden_weight: float
) -> Loss:
    """How far the student's probabilities are from the teacher's (Kullback-Leibler), of
    logits over a temperature; and hidden states by their weight.

    By the square of the temperature, so that gradients keep their size.
    """

    def loss(params: Tree, batch: TrainingBatch, frozen: Tree) -> jax.Array:
        logits, states = student(params, batch)
        expected, expected_states = teacher(frozen, batch)
        ours = jax.nn.log_softmax(logits / temperature)
        theirs = jax.nn.log_softmax(expected / temperature)
        apart = (jnp.exp(theirs) * (theirs - ours)).sum(-1) * temperature**2
        value = (apart * batch.weights).sum() / batch.weights.sum()
        if hidden_weight:
            value += hidden_weight * hidden_error(states, expected_states, batch)
        return jnp.asarray(value)

    return loss


def hidden_error(
    states: Sequence[jax.Array], expected: Sequence[jax.Array], batch: TrainingBatch
) -> jax.Array:
    """The mean over layers, over tokens of text and over the width."""
    weights = batch.weights if batch.weights.ndim > 1 else batch.weights[:, None]
    kept = (batch.mask * weights)[:, :, None]
    squares = [
        ((one - other) ** 2 * kept).sum() / (kept.sum() * one.shape[-1])
        for one, other in zip(states, expected, strict=True)
    ]
    return jnp.asarray(sum(squares) / len(squares))


def likeness(
    student: Traced, teacher: Traced, teacher_params: Tree, data: Batches
) -> Evaluate:
    """How alike the two are: ``agreement``, the share of labels or tokens that are the
    same, and ``hidden_loss`` if the student shows its hidden states."""
    frozen = jax.tree.map(jnp.asarray, teacher_params)

    @jax.jit
    def compare(
        params: Tree, batch: TrainingBatch, teacher_params: Tree
    ) -> tuple[jax.Array, jax.Array]:
        logits, states = student(params, batch)
        expected, expected_states = teacher(teacher_params, batch)
        same = (logits.argmax(-1) == expected.argmax(-1)) * batch.weights
        if not states:
            return jnp.asarray(jnp.nan), same.sum()
        return hidden_error(states, expected_states, batch), same.sum()

    def evaluate(params: Tree, on_batch: OnEvaluation) -> Scores:
        lost, same, count = 0.0, 0.0, 0.0
        batches = [*data.in_order()]
        for k, batch in enumerate(batches):
            on_batch(k, len(batches))
            error, alike = compare(params, batch, frozen)
            counted = float(np.sum(batch.weights))
            lost += float(error) * counted
            same += float(alike)
            count += counted
        scores = {"hidden_loss": lost / count, "agreement": same / count}
        return {name: score for name, score in scores.items() if not np.isnan(score)}

    return evaluate


def together(*evaluations: Evaluate) -> Evaluate:
    """The scores of several evaluations."""

    def evaluate(params: Tree, on_batch: OnEvaluation) -> Scores:
        scores: dict[str, float] = {}
        for each in evaluations:
            scores |= each(params, on_batch)
        return scores

    return evaluate
