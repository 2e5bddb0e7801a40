"""AdamW with warm-up, as Hugging Face's trainer sets it up."""

import jax
import optax

from ditto.plan import Tree
from ditto.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, steps: int) -> optax.Schedule:
    """The rate of each step, counted from 0: it rises from 0, then goes on as told."""
    highest = settings.learning_rate
    warm = round(settings.warmup_ratio * steps)
    rest = max(1, steps - warm)
    match settings.lr_scheduler_type:
        case "constant":
            return optax.constant_schedule(highest)
        case "constant_with_warmup":
            after = optax.constant_schedule(highest)
        case "linear":
            after = optax.linear_schedule(highest, 0.0, rest)
        case "cosine":
            after = optax.cosine_decay_schedule(highest, rest)
    if not warm:
        return after
    rising = optax.linear_schedule(0.0, highest, warm)
    return optax.join_schedules([rising, after], [warm])


def make_optimizer(
    settings: TrainingSettings, rate: optax.Schedule
) -> optax.GradientTransformation:
    """AdamW on clipped gradients."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.adamw(
            rate,
            b1=settings.adam_beta1,
            b2=settings.adam_beta2,
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            mask=decays,
        ),
    )


def decays(params: Tree) -> Tree:
    """Matrices and tables decay; biases and normalisations are vectors and do not."""
    return jax.tree.map(lambda array: array.ndim > 1, params)
