"""Any JAX function becomes a plan that three parties execute.

An attention block, written as one writes it. The compiler learns from samples how large
values get, chooses a fixed-point type for each, and says before anything runs what it
will cost. Run it: python examples/02_compile_a_function.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import ditto

TOKENS, WIDTH = 32, 64


def attention(w: dict[str, jax.Array], x: jax.Array, mask: jax.Array) -> jax.Array:
    """One head. Nothing here knows of shares, rings or protocols."""
    with jax.named_scope("project"):
        q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
    with jax.named_scope("attend"):
        scores = jnp.where(mask, q @ k.T / 8, -1e9)
        return jax.nn.softmax(scores, axis=-1) @ v


def main() -> None:
    """Compile, explain, run with three parties, compare."""
    rng = np.random.default_rng(0)
    w = {n: rng.normal(size=(WIDTH, WIDTH)) * 0.1 for n in "qkv"}  # the owner's
    x = rng.normal(size=(TOKENS, WIDTH))  # the client's
    mask = np.tri(TOKENS, dtype=bool)  # known to all
    samples = [(w, rng.normal(size=(TOKENS, WIDTH)), mask) for _ in range(4)]
    plan = ditto.compile(
        attention,
        (w, x, mask),
        calibration=samples,
        weight_argnums=(0,),
        public_argnums=(2,),
    )
    print(ditto.explain(plan))
    run = ditto.run_local(plan, (w, x, mask))
    error = np.abs(run.result - attention(w, x, mask)).max()
    print(f"largest error {error:.4f}, {run.bytes / 1e6:.2f} MB, {run.rounds} rounds")
    print(f"on a WAN about {ditto.estimate(plan, ditto.WAN).seconds:.1f} s")


if __name__ == "__main__":
    main()
