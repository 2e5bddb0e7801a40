"""Train a small GPT-2 on a text file, and publish it as a Hugging Face folder.

The whole story in one place: a byte-level BPE vocabulary is learnt from the text, our
own JAX model is trained with AdamW, and the folder that comes out is read by
``ditto.models.load_model`` and by transformers alike. Two cores are enough. It needs
one extra of Ditto: pip install "ditto-mpc[train]".

Run it: python examples/train_gpt2.py --out gpt2-small
"""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import typer
from rich.progress import Progress
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ditto.models import Checkpoint, Head, Model, write_checkpoint
from ditto.models.gpt2 import GPT2, Gpt2Config
from ditto.models.layers import Params

END = "<|endoftext|>"
REPORTS, GLANCE = 10, 32  # looks at the held-out text, and windows that a look takes
PROMPT, ANSWER = 16, 40  # tokens

File = typer.Option(exists=True, dir_okay=False, help="UTF-8 text; see above.")


def main(
    out: Annotated[Path, typer.Option(help="Folder to write; made if missing.")],
    text: Annotated[Path | None, File] = None,
    valid: Annotated[Path | None, File] = None,
    layers: Annotated[int, typer.Option(min=1, help="Decoder layers.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="Size of a hidden state.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="Heads; they share the width.")] = 4,
    vocabulary: Annotated[int, typer.Option(min=257, help="Tokens, at most.")] = 8192,
    context: Annotated[int, typer.Option(min=32, help="Tokens in a window.")] = 128,
    minutes: Annotated[float, typer.Option(min=0.01, help="Time to train for.")] = 6.0,
    steps: Annotated[int | None, typer.Option(min=1, help="Instead of time.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Windows in a step.")] = 8,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 2e-3,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and order.")] = 0,
) -> None:
    """Train a small GPT-2 on a text, and publish it as a Hugging Face folder.

    Without --text it learns from the language reference that ships with Python;
    without --valid the last 5 % of the text are held out.
    """
    if width % heads:
        raise typer.BadParameter(f"{heads} heads cannot share a width of {width}.")

    # Tokens. Nothing is learnt from what is held out, the vocabulary included.
    learnt = text.read_text(encoding="utf-8") if text else language_reference()
    cut = len(learnt) if valid else int(0.95 * len(learnt))
    held = valid.read_text(encoding="utf-8") if valid else learnt[cut:]
    tokenizer = train_tokenizer(learnt[:cut], vocabulary)
    tokens = np.array(tokenizer.encode(learnt[:cut]).ids, np.int32)
    held_tokens = np.array(tokenizer.encode(held).ids, np.int32)
    held_out = windows(held_tokens, context)
    if len(tokens) < (batch + 2) * context or not len(held_out):
        raise typer.BadParameter(
            f"{len(tokens)} tokens to learn from and {len(held_tokens)} held out are "
            f"too few: a step takes {batch} windows of {context} tokens."
        )

    # The model is ours; its configuration is the one that will be published.
    end = tokenizer.token_to_id(END)
    published = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "vocab_size": tokenizer.get_vocab_size(), "n_positions": context,
        "n_layer": layers, "n_embd": width, "n_head": heads,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True, "bos_token_id": end, "eos_token_id": end,
    }  # fmt: skip
    params = initial_params(Gpt2Config.from_hf(published), seed)
    model = Model(GPT2, Head.TEXT_GENERATION, published, params)
    size = sum(p.size for p in jax.tree.leaves(params))
    print(f"{size} parameters, {len(tokens)} tokens, {len(held_tokens)} held out")

    # Training, for as long as the clock or the count of steps says.
    optimizer = optax.chain(  # AdamW; its rate is an argument of the step
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(b1=0.9, b2=0.99),
        optax.add_decayed_weights(0.1, lambda p: jax.tree.map(lambda w: w.ndim > 1, p)),
    )
    loss, step = loss_and_step(model, optimizer)
    state = optimizer.init(params)
    feed = batches(tokens, context, batch, np.random.default_rng(seed))
    losses: list[float] = []
    looks = 0
    with Progress() as bar:
        task = bar.add_task("training", total=1.0)
        for done, seen in zip(progress(minutes, steps), feed, strict=False):
            share = min(done / 0.05, 0.5 + 0.5 * math.cos(math.pi * done))  # warm, cool
            params, state, lost = step(params, state, seen, rate * share)
            losses.append(float(lost))
            said = f"step {len(losses)}: loss {np.mean(losses[-50:]):.3f}"
            bar.update(task, completed=done, description=said)
            if done >= looks / REPORTS:
                looks += 1
                about = perplexity(loss, params, held_out[:GLANCE], batch)
                print(f"{said}, held-out perplexity about {about:.1f}")
        bar.update(task, completed=1.0)

    # The files that AutoModelForCausalLM and AutoTokenizer read.
    tensors = replace(model, params=params).tensors()
    write_checkpoint(Checkpoint(published, tensors), out)
    tokenizer.save(str(out / "tokenizer.json"))
    kind = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context,
        "bos_token": END, "eos_token": END, "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    (out / "tokenizer_config.json").write_text(json.dumps(kind, indent=2) + "\n")

    apply = jax.jit(model.apply)
    for place in (0, len(held_tokens) // 2):
        prompt = held_tokens[place : place + PROMPT]
        answer = continuation(apply, params, prompt, min(PROMPT + ANSWER, context))
        print(f"{tokenizer.decode(prompt)!r} -> {tokenizer.decode(answer)!r}")
    final = perplexity(loss, params, held_out, batch)
    print(f"wrote {out}\nheld-out perplexity {final:.2f}")


def language_reference() -> str:
    """English that is on any machine; each paragraph once, so that held out is new."""
    from pydoc_data.topics import topics

    return "\n\n".join(dict.fromkeys("\n\n".join(topics.values()).split("\n\n")))


def train_tokenizer(text: str, vocabulary: int) -> Tokenizer:
    """Byte-level BPE, as GPT-2's: any text has tokens, and none is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def windows(tokens: np.ndarray, context: int) -> np.ndarray:
    """(N, context + 1): neighbours share a token, so that each is predicted once."""
    starts = np.arange(0, len(tokens) - context, context)
    return tokens[starts[:, None] + np.arange(context + 1)]


def batches(
    tokens: np.ndarray, context: int, batch: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Without end: all windows in random order, then again, cut elsewhere."""
    while True:
        cut = rng.permutation(windows(tokens[rng.integers(context) :], context))
        for k in range(0, len(cut) - batch + 1, batch):
            yield cut[k : k + batch]


def initial_params(config: Gpt2Config, seed: int) -> Params:
    """GPT-2's: small normals, smaller where a layer adds to the residual stream."""
    rng = np.random.default_rng(seed)
    width, inner = config.n_embd, config.n_inner
    small = 0.02 * np.sqrt(768 / width)  # 0.02 is for the width of GPT-2's smallest
    smaller = 1 / np.sqrt(2 * config.n_layer)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0, small, shape), jnp.float32)

    def dense(rows: int, columns: int, scale: float = 1.0) -> Params:
        return {"w": scale * normal(rows, columns), "b": jnp.zeros(columns)}

    def norm() -> Params:
        return {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}

    word = normal(config.vocab_size, width)
    position = normal(config.n_positions, width)
    layers = [
        {
            "attention_norm": norm(), "qkv": dense(width, 3 * width),
            "output": dense(width, width, smaller), "feed_norm": norm(),
            "up": dense(width, inner), "down": dense(inner, width, smaller),
        }
        for _ in range(config.n_layer)
    ]  # fmt: skip
    embeddings = {"word": word, "position": position}
    return {"embeddings": embeddings, "layers": layers, "last_norm": norm()}


def loss_and_step(model: Model, optimizer: Any) -> tuple[Any, Any]:
    """Functions of windows (B, context + 1): the loss of a token; a step down it."""

    def loss(params: Params, seen: jax.Array) -> jax.Array:
        ids, following = seen[:, :-1], seen[:, 1:]
        logits = model.apply(params, ids, jnp.ones_like(ids))
        return optax.softmax_cross_entropy_with_integer_labels(logits, following).mean()

    def step(params: Params, state: Any, seen: jax.Array, rate: float) -> Any:
        lost, gradient = jax.value_and_grad(loss)(params, seen)
        change, state = optimizer.update(gradient, state, params)
        return jax.tree.map(lambda p, by: p - rate * by, params, change), state, lost

    return jax.jit(loss), jax.jit(step)


def progress(minutes: float, steps: int | None) -> Iterator[float]:
    """From 0 up to 1, by steps where they are given and by the clock elsewhere."""
    started = time.monotonic()
    for k in count():
        done = k / steps if steps else (time.monotonic() - started) / (60 * minutes)
        if done >= 1:
            return
        yield done


def perplexity(loss: Any, params: Params, cut: np.ndarray, batch: int) -> float:
    """Per token; a window knows nothing of the one before it."""
    parts = [cut[k : k + batch] for k in range(0, len(cut), batch)]
    total = sum(float(loss(params, part)) * len(part) for part in parts)
    return float(np.exp(total / len(cut)))


def continuation(apply: Any, params: Params, prompt: np.ndarray, length: int) -> Any:
    """The likeliest tokens after the prompt, one by one, up to a length in all."""
    ids = np.zeros((1, length), np.int32)
    ids[0, : len(prompt)] = prompt
    for k in range(len(prompt), length):
        ids[0, k] = apply(params, ids, np.ones_like(ids))[0, k - 1].argmax()
    return ids[0, len(prompt) :]


if __name__ == "__main__":
    typer.run(main)
