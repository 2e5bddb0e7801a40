"""One BERT encoder layer in several profiles: bytes, rounds, time and error."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console

from benchmarks import show
from benchmarks.bare import BareTrio
from benchmarks.programs import run_layer
from ditto.analysis import describe
from ditto.api.local import step_costs
from ditto.client import open_outputs, share_arguments
from ditto.compiler import Profile, compile, find_profile  # noqa: A004
from ditto.errors import SetupError
from ditto.frames import Json
from ditto.models.layers import Params, layer_norm
from ditto.owner import signature_of
from ditto.plan import Plan
from ditto.steps import Site

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
    with BareTrio(timeout=600) as trio:
        for name in profiles:
            progress(f"{name}: compiling")
            profile = with_gelu(name, gelu)
            plan = compile(
                layer,
                (params, x),
                profile=profile,
                calibration=samples,
                weight_argnums=(0,),
            )
            keep(name, plan)
            progress(f"{name}: three parties compute")
            data = {"plan": np.frombuffer(plan.to_bytes(), np.uint8)}
            signature = signature_of(plan)
            dealt = share_arguments(signature, jax.tree.leaves((params, x)))
            shares = [{**data, **s} for s in dealt]
            parameters = {"repeat": repeat, "bare": name != "ditto"}
            replies = trio.call(run_layer, parameters, shares)
            reference = encoder_layer(
                size, quad if profile.gelu == "quad" else exact_gelu
            )
            answer = open_outputs(signature, [arrays for _, arrays in replies])
            error = np.abs(answer - np.asarray(reference(params, x)))
            results.append(_result(profile, plan, [r for r, _ in replies], error))
    return results


def _result(
    profile: Profile, plan: Plan, replies: list[Json], error: Any
) -> dict[str, Any]:
    costs = step_costs(plan, [reply["steps"] for reply in replies])
    steps = [
        {
            "step": describe(Site.of(plan, i)),
            "scope": cost.scope,
            "bytes": cost.bytes,
            "rounds": cost.rounds,
            "seconds": cost.seconds,
        }
        for i, cost in enumerate(costs)
    ]
    runs = zip(*(reply["seconds"] for reply in replies), strict=True)
    return {
        "profile": profile.name,
        "gelu": profile.gelu,
        "bytes": sum(s["bytes"] for s in steps),
        "rounds": sum(s["rounds"] for s in steps),
        "seconds": statistics.median(max(run) for run in runs),
        "cpu_seconds": [round(min(reply["cpu_seconds"]), 3) for reply in replies],
        "mean_abs_error": float(error.mean()),
        "max_abs_error": float(error.max()),
        "digest": plan.digest,
        "steps": [s for s in steps if s["bytes"]],
    }


def main(
    profiles: show.Profiles = "spu,puma,paper,ditto",
    gelu: Annotated[
        str,
        typer.Option(help="quad or accurate, in profiles paper and ditto."),
    ] = "quad",
    json_file: show.JsonFile = None,
    markdown_file: show.MarkdownFile = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write each profile's plan into this folder."),
    ] = None,
    length: Annotated[
        int, typer.Option("--tokens", help="Sequence length.", min=2)
    ] = 128,
    width: Annotated[int, typer.Option(help="Model width.", min=2)] = 768,
    heads: Annotated[int, typer.Option(help="Attention heads.", min=1)] = 12,
    inner: Annotated[int, typer.Option(help="Feed-forward width.", min=2)] = 3072,
    repeat: Annotated[int, typer.Option(help="Timed runs of each.", min=1)] = 3,
) -> None:
    """One BERT encoder layer in several profiles, compiled and run side by side.

    Three processes over TLS links. Bytes and rounds are of all parties together and
    exact; the error is against the same layer in float. Profiles spu and puma keep
    their own GeLU, and SPU is timed on its own links. About two minutes.
    """
    if gelu not in ("quad", "accurate"):
        raise SetupError(f"--gelu is quad or accurate, got {gelu!r}.")
    if width % heads:
        raise SetupError(f"--width {width} is not a multiple of --heads {heads}.")

    def keep(name: str, plan: Plan) -> None:
        if save:
            save.mkdir(parents=True, exist_ok=True)
            plan.save(save / f"{name}.plan")

    with Console(stderr=True).status("starting the parties") as status:
        results = bench_layer(
            show.names(profiles),
            gelu,
            shape=LayerShape(length, width, heads, inner),
            repeat=repeat,
            progress=status.update,
            keep=keep,
        )
    base = next((r for r in results if r["profile"] == "puma"), results[0])
    lines = [
        [
            r["profile"],
            r["gelu"],
            f"{r['bytes'] / 1e6:.1f}",
            f"{base['bytes'] / r['bytes']:.2f}",
            f"{r['rounds']}",
            f"{r['seconds']:.2f}",
            f"{base['seconds'] / r['seconds']:.2f}",
            f"{r['mean_abs_error']:.4f}",
        ]
        for r in results
    ]
    title = f"One encoder layer, {length} tokens, width {width}"
    fewer, faster = f"fewer than {base['profile']}", f"faster than {base['profile']}"
    numbers = ["MB", fewer, "rounds", "seconds", faster, "mean error"]
    show.show(title, ["profile", "gelu"], numbers, lines, markdown_file)
    show.write(json_file, results)


if __name__ == "__main__":
    show.run(main)
