"""Models of this machine, behind the interface that a deployment has, too."""

import shutil
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from ditto.api import from_pretrained
from ditto.api.answering import BATCH, LocalAnswering, open_local
from ditto.api.backends import PartiesBackend
from ditto.client.reading import cosine_of
from ditto.errors import DeadlineError, SetupError, UnknownModelError
from ditto.models import Head
from ditto.runtime import ThreadTrio
from tests.folders import TEXTS, bert_folder, gpt2_folder

SHORT = ["the old cat", "a dog ran .", "the river"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "bert": bert_folder(root / "bert", layers=1),
        "gpt2": gpt2_folder(root / "gpt2", layers=1, positions=64),
    }


@pytest.fixture(scope="module")
def answering(folders: dict[str, Path]) -> Iterator[LocalAnswering]:
    with ThreadTrio() as trio:
        yield open_local(folders, calibration=TEXTS, trio=trio)


def states(answering: LocalAnswering) -> list[int]:
    backend = answering._models["gpt2"].backend
    assert isinstance(backend, PartiesBackend)
    return [status.states for status in backend.status()]


def test_models_share_the_parties(
    answering: LocalAnswering, folders: dict[str, Path]
) -> None:
    assert len(answering.parties()) == 3
    predictions = answering.predict("bert", SHORT)
    expected = from_pretrained(folders["bert"], mode="float").predict(SHORT)
    for found, exact in zip(predictions, expected, strict=True):
        assert found.label == exact.label
        assert found.in_range is True
        assert cosine_of(found.output, exact.output) > 0.999
    text = "".join(g.text for g in answering.stream("gpt2", "the old cat", 3))
    exact_text = from_pretrained(folders["gpt2"], mode="float").generate(
        "the old cat", 3
    )
    assert text == exact_text[0].text
    assert states(answering) == [0, 0, 0]


def test_texts_of_one_length_are_asked_together(answering: LocalAnswering) -> None:
    texts = [*(SHORT * BATCH)[: BATCH + 1], TEXTS[0]]
    answers = answering.predict("bert", texts)
    again = answering.predict("bert", SHORT[:1])
    for k in (0, 3, BATCH):
        assert cosine_of(answers[k].output, answers[k % 3].output) > 0.999
    assert cosine_of(answers[0].output, again[0].output) > 0.999
    model = answering._models["bert"]
    groups = answering._groups(model, texts, None)
    assert sorted(map(len, groups)) == [1, 1, BATCH]
    half = answering._groups(model, SHORT[:2] * 2, None)
    assert [len(group) for group in half] == [BATCH // 2]
    assert sorted(k for group in groups for k in group) == list(range(BATCH + 2))


def test_nothing_is_kept_of_requests(answering: LocalAnswering) -> None:
    answering.predict("bert", SHORT[:1])
    backend = answering._models["bert"].backend
    assert isinstance(backend, PartiesBackend)
    assert (backend.runs, backend.uploaded, backend.spent) == ([], [], [])


def test_a_text_can_be_left_and_others_have_their_turn(
    answering: LocalAnswering,
) -> None:
    stream = answering.stream("gpt2", "the old cat", 5)
    assert isinstance(stream, Generator)
    next(stream)
    assert states(answering) == [1, 1, 1]
    assert answering.predict("bert", SHORT[:1])  # between two tokens
    next(stream)
    stream.close()
    assert states(answering) == [0, 0, 0]


def test_a_deadline_is_kept(answering: LocalAnswering) -> None:
    with pytest.raises(DeadlineError, match="deadline"):
        answering.predict("bert", SHORT[:1], timeout=0)
    held = threading.Event()
    with answering._lock:
        waiting = threading.Thread(target=_expire, args=(answering, held))
        waiting.start()
        assert held.wait(10)
    waiting.join(10)


def _expire(answering: LocalAnswering, expired: threading.Event) -> None:
    with pytest.raises(DeadlineError):
        answering.predict("bert", SHORT[:1], timeout=0.05)
    expired.set()


def test_a_card_says_what_runs(
    answering: LocalAnswering, folders: dict[str, Path], tmp_path: Path
) -> None:
    bert, gpt2 = answering.models()
    assert (bert.name, bert.head) == ("bert", Head.TEXT_CLASSIFICATION)
    assert (gpt2.max_tokens, gpt2.chat_template) == (64, None)
    other = Path(shutil.copytree(folders["gpt2"], tmp_path / "gpt2"))
    with ThreadTrio() as trio:
        same = open_local({"x": other}, calibration=TEXTS, trio=trio).models()[0]
        assert same.digest == gpt2.digest
        (other / "chat_template.jinja").write_text("{{ messages[0].content }}")
        changed = open_local({"x": other}, calibration=TEXTS, trio=trio).models()[0]
    assert changed.digest != gpt2.digest
    assert changed.chat_template == "{{ messages[0].content }}"


def test_what_is_not_there_is_refused(answering: LocalAnswering) -> None:
    with pytest.raises(UnknownModelError, match="'bert', 'gpt2'"):
        answering.predict("none", SHORT)
    with pytest.raises(UnknownModelError):
        answering.count_tokens("none", "x")
    with pytest.raises(SetupError, match="on_out_of_range='maybe'"):
        answering.predict("bert", SHORT, on_out_of_range="maybe")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="folder of a model"):
        open_local({})


def test_plans_can_be_prepared(answering: LocalAnswering) -> None:
    stages: list[str] = []
    answering.prepare(8, stages.append)
    assert [s for s in stages if "decode" in s]
    assert states(answering) == [0, 0, 0]
