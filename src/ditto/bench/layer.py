"""One BERT encoder layer in several profiles: bytes, rounds, time and error."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ditto.compiler import Plan, Profile, compile, find_profile  # noqa: A004
from ditto.compiler.execute import execute, prepare
from ditto.compiler.explain import describe
from ditto.compiler.local import (
    deal_arguments,
    held_arguments,
    opened,
    step_costs,
)
from ditto.engine import LinkedSession, ProcessTrio, Session
from ditto.engine.frames import Arrays, Json
from ditto.models.layers import Params, layer_norm
from ditto.protocols import reveal_to_client
from ditto.sharing import Shared

_EPS = 1e-5


@dataclass(frozen=True)
class LayerShape:
    """The size of an encoder layer; BERT-base by default."""

    tokens: int = 128
    width: int = 768
    heads: int = 12
    inner: int = 3072


def weights(shape: LayerShape, seed: int) -> Params:
    """Random weights of deviation 0.05; norms that change nothing."""
    rng = np.random.default_rng(seed)

    def draw(*size: int) -> Any:
        return (0.05 * rng.normal(size=size)).astype(np.float32)

    width, inner = shape.width, shape.inner
    norm = {
        "gamma": np.ones(width, np.float32),
        "beta": np.zeros(width, np.float32),
    }
    return {
        **{name: draw(width, width) for name in ("query", "key", "value", "output")},
        "up": draw(width, inner),
        "down": draw(inner, width),
        "attention_norm": dict(norm),
        "output_norm": dict(norm),
    }


def tokens(shape: LayerShape, seed: int) -> Any:
    """Standard normal inputs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(shape.tokens, shape.width)).astype(np.float32)


def encoder_layer(
    shape: LayerShape, gelu: Callable[[jax.Array], jax.Array]
) -> Callable[[Params, jax.Array], jax.Array]:
    """The layer as one writes it in JAX."""

    def heads(x: jax.Array) -> jax.Array:
        return x.reshape(shape.tokens, shape.heads, -1).transpose(1, 0, 2)

    def layer(p: Params, x: jax.Array) -> jax.Array:
        with jax.named_scope("attention"):
            q, k, v = (heads(x @ p[name]) for name in ("query", "key", "value"))
            scale = (shape.width // shape.heads) ** -0.5
            scores = jnp.einsum("hqd,hkd->hqk", q, k) * scale
            mixed = jax.nn.softmax(scores, axis=-1) @ v
            joined = mixed.transpose(1, 0, 2).reshape(shape.tokens, shape.width)
            attended = joined @ p["output"]
        with jax.named_scope("attention_norm"):
            x = layer_norm(p["attention_norm"], x + attended, _EPS)
        with jax.named_scope("feed_forward"):
            fed = gelu(x @ p["up"]) @ p["down"]
        with jax.named_scope("output_norm"):
            return layer_norm(p["output_norm"], x + fed, _EPS)

    return layer


def exact_gelu(x: jax.Array) -> jax.Array:
    """GeLU by the error function."""
    return jax.nn.gelu(x, approximate=False)


def quad(x: jax.Array) -> jax.Array:
    """What stands for GeLU in models distilled for it."""
    return 0.125 * x * x + 0.25 * x + 0.5


def with_gelu(profile: str, gelu: str) -> Profile:
    """A profile with the GeLU asked for: ``spu`` and ``puma`` keep their own."""
    chosen = find_profile(profile)
    if chosen.engine == "spu":
        return chosen
    if chosen.engine == "rings-in-spu" and gelu == "accurate":
        return chosen.replace(gelu="puma")
    return chosen.replace(gelu=gelu)


def bench_layer(
    profiles: Sequence[str],
    gelu: str,
    *,
    shape: LayerShape | None = None,
    repeat: int = 3,
    progress: Callable[[str], None] = lambda _: None,
    keep: Callable[[str, Plan], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Every profile on the same weights and input, in three processes with TLS."""
    size = shape or LayerShape()
    params, x = weights(size, 0), tokens(size, 1)
    samples = [(params, tokens(size, seed)) for seed in (2, 3)]
    layer = encoder_layer(size, exact_gelu)
    results = []
    with ProcessTrio(timeout=600, bare_links=True) as trio:
        for name in profiles:
            progress(f"{name}: compiling")
            profile = with_gelu(name, gelu)
            plan = compile(
                layer, (params, x), profile=profile, calibration=samples, weights=(0,)
            )
            keep(name, plan)
            progress(f"{name}: three parties compute")
            data = {"plan": np.frombuffer(plan.to_bytes(), np.uint8)}
            shares = [{**data, **s} for s in deal_arguments(plan, (params, x))]
            given = {"repeat": repeat, "bare": name != "ditto"}
            replies = trio.call(run_layer, given, shares)
            reference = encoder_layer(
                size, quad if profile.gelu == "quad" else exact_gelu
            )
            answer = opened(plan, [arrays for _, arrays in replies])
            error = np.abs(answer - np.asarray(reference(params, x)))
            results.append(_result(plan, [r for r, _ in replies], error))
    return results


def _result(plan: Plan, replies: list[Json], error: Any) -> dict[str, Any]:
    steps = [
        {
            "step": describe(plan, step),
            "scope": cost.scope,
            "bytes": cost.bytes,
            "rounds": cost.rounds,
            "seconds": cost.seconds,
        }
        for step, cost in zip(plan.steps, step_costs(plan, replies), strict=True)
    ]
    runs = zip(*(reply["seconds"] for reply in replies), strict=True)
    return {
        "profile": plan.profile.name,
        "gelu": plan.profile.gelu,
        "bytes": sum(s["bytes"] for s in steps),
        "rounds": sum(s["rounds"] for s in steps),
        "seconds": statistics.median(max(run) for run in runs),
        "mean_abs_error": float(error.mean()),
        "max_abs_error": float(error.max()),
        "digest": plan.digest,
        "steps": [s for s in steps if s["bytes"]],
    }


def run_layer(
    session: Session, parameters: Json, arrays: Arrays
) -> tuple[Json, Arrays]:
    """What each party does: a run that counts, then runs that are timed.

    Where SPU alone computes, it is timed on its own links, without ours between.
    """
    plan = Plan.from_bytes(arrays["plan"].tobytes())
    held, regions = held_arguments(plan, arrays), prepare(plan)
    (output,), spent = execute(plan, session, held, regions=regions)
    runtimes = None
    if parameters["bare"] and isinstance(session, LinkedSession):
        runtimes = session.bare_runtimes()
    seconds = []
    for _ in range(parameters["repeat"]):
        started = time.perf_counter()
        (output,), _ = execute(plan, session, held, regions=regions, runtimes=runtimes)
        seconds.append(time.perf_counter() - started)
    if not isinstance(output, Shared):
        raise TypeError("The layer's result is secret.")
    costs = [[s.bytes, s.rounds, s.seconds] for s in spent]
    summand = reveal_to_client(session.party, output)
    return {"steps": costs, "seconds": seconds}, {"0": summand}
