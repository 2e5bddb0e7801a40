"""MPNet: what is added to the scores for the distance of two tokens.

The table of these numbers is a weight: it is shared once, of any length the parties
take rows of it, and adding them costs nothing.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import transformers as hf

import ditto
from ditto.api import from_pretrained
from ditto.models import Model, load_model
from ditto.models.bert import distance_buckets, first_state, hidden_states
from ditto.party import store_of
from ditto.runtime import ThreadTrio
from tests.folders import TEXTS, WORDS
from tests.models.test_parity import BERT, TOLERANCE, saved

ALL_WORDS = ["<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>"]
OPTIONS = {**BERT, "num_hidden_layers": 2, "vocab_size": len(ALL_WORDS)}
OPTIONS["max_position_embeddings"] = 66


def with_vocabulary(folder: Path, model: Any) -> Any:
    network = saved(folder, hf.MPNetConfig, model, OPTIONS)
    (folder / "vocab.txt").write_text("\n".join(ALL_WORDS) + "\n")
    return network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mpnet")
    with_vocabulary(path, hf.MPNetForSequenceClassification)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder)


def batch(seed: int, length: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Two texts, the second padded; the mask is of numbers, as it may be secret."""
    ids = np.random.default_rng(seed).integers(5, len(ALL_WORDS), (2, length))
    mask = np.arange(length) < np.array([[length], [length - 5]])
    return ids.astype(np.int32), mask.astype(np.float32)


def test_buckets_are_those_of_transformers() -> None:
    places = torch.arange(300)
    encoder = hf.models.mpnet.modeling_mpnet.MPNetEncoder
    expected = encoder.relative_position_bucket(places[None, :] - places[:, None])
    assert np.array_equal(distance_buckets(300, 32), expected.numpy())


@pytest.mark.parametrize("paired", [False, True])
def test_texts_and_pairs_have_the_logits_of_transformers(
    folder: Path, paired: bool
) -> None:
    pairs = TEXTS[::-1] if paired else None
    words = hf.MPNetTokenizer.from_pretrained(folder)(
        TEXTS, pairs, padding=True, return_tensors="pt"
    )
    network = hf.MPNetForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = network(**words).logits.numpy()
    answers = from_pretrained(folder, mode="float").predict(TEXTS, pairs)
    assert np.abs(np.stack([a.logits for a in answers]) - expected).max() <= TOLERANCE


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_embeddings_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    theirs = pytest.importorskip("sentence_transformers")
    with_vocabulary(tmp_path / "network", hf.MPNetModel)
    encoder = theirs.SentenceTransformer(str(tmp_path / "network"), device="cpu")
    encoder.append(theirs.sentence_transformer.modules.Normalize())
    encoder.save(str(tmp_path / "saved"))
    ours = from_pretrained(tmp_path / "saved", mode="float")
    found = np.stack([answer.embedding for answer in ours.predict(TEXTS)])
    assert np.abs(found - encoder.encode(TEXTS)).max() <= TOLERANCE


def test_the_first_token_alone_has_its_own_distances(model: Model) -> None:
    ids, mask = batch(0)
    first, whole = (jax.jit(partial(f, model.config)) for f in (first_state, _last))
    expected = whole(model.params, ids, mask)[:, :1]
    assert np.abs(first(model.params, ids, mask) - expected).max() <= TOLERANCE
    turned = dict(model.params["embeddings"])
    turned["distance"] = turned["distance"][::-1]
    other = first({**model.params, "embeddings": turned}, ids, mask)
    assert np.abs(other - expected).max() > 1e-2


def _last(*inputs: Any) -> jax.Array:
    return hidden_states(*inputs)[-1]


@pytest.mark.parametrize("hidden", [False, True], ids=["public", "hidden length"])
def test_distances_cost_no_round_and_few_bytes(model: Model, hidden: bool) -> None:
    """Beside the same network without them; the table is of the usual size, small
    enough that no range is another. Scores that a softmax alone takes are shared in a
    small ring (``passes.narrow``); those that something secret is added to are not.
    """
    embeddings = dict(model.params["embeddings"])
    small = 1e-3 * embeddings.pop("distance")
    without = {**model.params, "embeddings": embeddings}
    params = {**model.params, "embeddings": {**embeddings, "distance": small}}
    config = replace(model.config, relative_attention_num_buckets=0)
    plain = partial(model.family.forward, config, model.head)
    costs = []
    for function, weights in ((model.apply, params), (plain, without)):
        samples = [(weights, *batch(seed)) for seed in range(6)]
        if not hidden:
            samples = [(p, ids, mask.astype(bool)) for p, ids, mask in samples]
        plan = ditto.compile(
            function,
            samples[0],
            calibration=samples,
            weight_argnums=(0,),
            public_argnums=() if hidden else (2,),
        )
        shapes = {plan.values[v].shape for g in plan.inputs for v in g.encodings}
        assert (small.shape in shapes) == (weights is params)
        costs.append((ditto.estimate(plan).bytes, ditto.estimate(plan).rounds))
    (with_them, rounds), (without_them, fewest) = costs
    assert rounds == fewest
    scores = config.num_hidden_layers * config.num_attention_heads * 2 * 12**2
    bits_more = 8 * (with_them - without_them) / (3 * scores)
    assert bits_more == (0 if hidden else 13)


def test_three_parties_with_pairs_and_hidden_lengths(folder: Path) -> None:
    """At two lengths, of one table that is shared once."""
    first, second = TEXTS[:1], TEXTS[3:4]
    expected = from_pretrained(folder, mode="float").predict(first, second)[0].logits
    with (
        ThreadTrio() as trio,
        from_pretrained(
            folder, calibration=TEXTS, trio=trio, hide_length=True
        ) as private,
    ):
        for length in (20, 32):
            (answer,) = private.predict(first, second, pad_to=length)
            assert np.abs(answer.logits - expected).max() < 0.02
        kept = store_of(trio.sessions[0]).weights()
    assert sum("distance" in name for _, name, _ in kept) == 1
