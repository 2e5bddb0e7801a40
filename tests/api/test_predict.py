"""Texts in, private answers out: batches, lengths, pairs, what is sent and kept."""

import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ditto
from ditto.api import from_pretrained
from ditto.api.backends import PartiesBackend, SimulatedBackend
from ditto.errors import CheckpointError, SetupError
from ditto.models.layers import attention
from ditto.party import store_of
from ditto.runtime import ThreadTrio
from ditto.sharing.points import point_bytes
from tests.folders import TEXTS, WORDS, bert_folder, gpt2_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def trio() -> Iterator[ThreadTrio]:
    with ThreadTrio() as parties:
        yield parties


def test_texts_of_several_lengths_come_back_in_order(
    folder: Path, trio: ThreadTrio
) -> None:
    due = from_pretrained(folder, mode="float").predict(TEXTS)
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        got = model.predict(TEXTS, batch_size=2)
        simulated = model.with_mode("simulate")
        same = simulated.predict(TEXTS, batch_size=2)
    for answer, exact, third in zip(got, due, same, strict=True):
        assert np.abs(answer.logits - exact.logits).max() < 0.02
        assert np.abs(third.logits - exact.logits).max() < 0.02
        assert answer.label == ("bad", "good")[int(exact.logits.argmax())]
    backend = simulated.backend
    assert isinstance(backend, SimulatedBackend)
    assert {
        "embeddings",
        "encoder.layer.0",
        "encoder.layer.1",
        "text-classification",
    } <= set(backend.headroom)
    assert min(h.bits for h in backend.headroom.values()) > 0


def test_weights_are_shared_once_for_all_shapes(folder: Path, trio: ThreadTrio) -> None:
    """Matrices keep their type over buckets, batches and pairs."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        model.predict(TEXTS[:1], pad_to=16)
        model.predict(TEXTS[:1], pad_to=32)
        model.predict(TEXTS[:2], batch_size=2, pad_to=16)
        model.predict(TEXTS[:1], TEXTS[1:2], pad_to=32)
        kept = store_of(trio.sessions[0]).weights()
    matrices: dict[str, set[str]] = {}
    for (_, name, kind), shared in kept.items():
        if len(shared.shape) == 2:
            matrices.setdefault(name, set()).add(str(kind))
    assert len(matrices) == 2 * 6 + 5  # six a layer; tables, pooler, classifier
    assert {name: kinds for name, kinds in matrices.items() if len(kinds) > 1} == {}


def test_the_client_sends_keys_and_a_public_mask(
    folder: Path, trio: ThreadTrio
) -> None:
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        model.predict(TEXTS[:1], pad_to=16)
        backend = model.backend
        assert isinstance(backend, PartiesBackend)
        keys = 5 * 16 * point_bytes(len(WORDS), 32)
        mask = 3 * 16 * 4
        assert backend.uploaded == [keys + mask]


def test_pairs_and_hidden_lengths(folder: Path, trio: ThreadTrio) -> None:
    first, second = TEXTS[:2], TEXTS[2:4]
    plain = from_pretrained(folder, mode="float")
    due = plain.predict(first, second)
    with from_pretrained(
        folder, calibration=TEXTS, trio=trio, hide_length=True
    ) as model:
        got = model.predict(first, second, pad_to=32)
        (plan,) = model.plans._made.values()
    for answer, exact in zip(got, due, strict=True):
        assert np.abs(answer.logits - exact.logits).max() < 0.02
    assert [given.role for given in plan.inputs[-3:]] == ["secret"] * 3
    assert np.abs(plain.predict(first)[0].logits - due[0].logits).max() > 1e-4


def test_the_parties_are_told_how_far_they_are(
    folder: Path, trio: ThreadTrio, tmp_path: Path
) -> None:
    stages: list[str] = []
    parts: list[str] = []
    with from_pretrained(
        folder,
        calibration=TEXTS,
        trio=trio,
        on_stage=stages.append,
        on_part=lambda part, *_: parts.append(part),
        cache=tmp_path,
    ) as model:
        model.predict(TEXTS[:1])
    assert list(dict.fromkeys(stages)) == [
        "looking for the plan in the cache",
        "calibrating on 64 samples",
        "compiling",
        "calibrating on 16 samples",
        "handing out the plan",
        "sharing the weights",
    ]
    assert parts == [
        "embeddings",
        "encoder.layer.0",
        "encoder.layer.1",
        "text-classification",
    ]


def test_a_model_that_is_dropped_lets_its_parties_go(
    folder: Path, trio: ThreadTrio
) -> None:
    model = from_pretrained(folder, calibration=TEXTS, trio=trio)
    model.predict(TEXTS[:1])
    assert isinstance(model.backend, PartiesBackend)
    held = weakref.ref(model.backend._deployment)
    del model  # at once, with no circle that would wait to be collected
    assert held() is None


def test_wrong_uses_are_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    model = from_pretrained(folder, mode="float")
    with pytest.raises(SetupError, match="list of texts"):
        model.predict("one text")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="2 texts and 1 second"):
        model.predict(TEXTS[:2], TEXTS[:1])
    with pytest.raises(SetupError, match="512 at most"):
        model.predict(TEXTS, pad_to=600)
    with pytest.raises(CheckpointError, match="no head 'nonsense'"):
        from_pretrained(folder, head="nonsense")
    with pytest.raises(SetupError, match="does not generate"):
        model.generate("the")
    with pytest.raises(SetupError, match="none of float, simulate and mpc"):
        from_pretrained(folder, mode="secret")  # type: ignore[arg-type]
    decoder = gpt2_folder(tmp_path / "gpt2")
    with pytest.raises(SetupError, match="Only encoders"):
        from_pretrained(decoder, hide_length=True)
    with pytest.raises(SetupError, match="use generate"):
        from_pretrained(decoder, mode="float").predict(TEXTS)
    (folder / "vocab.txt").rename(tmp_path / "vocab.txt")
    try:
        (folder / "vocab.txt").write_text("\n".join([*WORDS, "more"]) + "\n")
        with pytest.raises(CheckpointError, match="do not belong together"):
            from_pretrained(folder)
    finally:
        (tmp_path / "vocab.txt").rename(folder / "vocab.txt")


def test_two_models_of_one_shape_do_not_mix(
    folder: Path, trio: ThreadTrio, tmp_path: Path
) -> None:
    """Weights belong to a model, not to a name in a plan."""
    other = bert_folder(tmp_path / "other", seed=5)
    with (
        from_pretrained(folder, calibration=TEXTS, trio=trio) as one,
        from_pretrained(other, calibration=TEXTS, trio=trio) as two,
    ):
        first = one.predict(TEXTS[:1], pad_to=16)[0].logits
        second = two.predict(TEXTS[:1], pad_to=16)[0].logits
        again = one.predict(TEXTS[:1], pad_to=16)[0].logits
    assert np.abs(first - second).max() > 0.05
    assert np.abs(first - again).max() < 0.01


def test_padding_that_scores_high_does_no_harm() -> None:
    """With a secret mask the maximum is not taken of what is hidden."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, 8, 16)).astype(np.float32) for _ in "qkv")
    k[:, :, 5:] = 3 * q[:, :, :3]
    mask = (np.arange(8) < 5).astype(np.float32)[None, None, None]
    plan = ditto.compile(attention, (q, k, v, mask), calibration=[(q, k, v, mask)])
    due = attention(q, k, v, mask.astype(bool))
    found = ditto.simulate(plan, (q, k, v, mask)).result
    assert np.abs(found - due).max() < 0.02


def test_what_a_model_will_cost_and_has_cost(folder: Path, trio: ThreadTrio) -> None:
    """Bytes and rounds are known before anything runs, and are then as they were."""
    with from_pretrained(folder, calibration=TEXTS, trio=trio) as model:
        assert model.last_run is None
        plan = model.plan(pad_to=16)
        assert plan is model.plan(pad_to=16)
        expected = model.estimate(ditto.LAN, pad_to=16)
        model.predict(TEXTS[:1], pad_to=16)
        run = model.last_run
        assert run is not None
        assert (run.bytes, run.rounds) == (expected.bytes, expected.rounds)
        assert plan.digest[:16] in model.explain(pad_to=16)
        assert model.estimate(ditto.WAN, pad_to=16).seconds > expected.seconds
