"""The ordinary texts: enough of every kind, and none that plans are calibrated on."""

from collections import Counter

from ditto.evaluation import ordinary_texts, some_texts
from ditto.owner.sample_text import SENTENCES, SHORT, STRANGE

KINDS = {
    "word": 45, "chat": 45, "emoji": 25, "number": 20, "code": 30, "url": 15,
    "script": 45, "repeat": 25, "sentence": 30, "pair": 20, "long": 40, "odd": 10,
}  # fmt: skip


def test_there_are_enough_of_every_kind() -> None:
    texts = ordinary_texts()
    counted = Counter(text.kind for text in texts)
    assert set(counted) == set(KINDS)
    assert all(counted[kind] >= least for kind, least in KINDS.items())
    assert len({(text.text, text.pair) for text in texts}) == len(texts) >= 300
    assert all((text.pair is not None) == (text.kind == "pair") for text in texts)
    found = {text.text for text in texts}
    assert {"thanks", "lol", "lmao", "wtf", "lol ok", "ok 👍", "love it 😍"} <= found


def test_no_plan_is_calibrated_on_them() -> None:
    asked = {text.text.strip().lower() for text in ordinary_texts()}
    known = {text.strip().lower() for text in (*SENTENCES, *SHORT, *STRANGE)}
    assert not asked & known


def test_some_are_of_all_kinds_and_as_many_as_asked() -> None:
    assert {text.kind for text in some_texts(12)} == set(KINDS)
    assert len(some_texts(500)) == 500
    assert some_texts(500)[:12] == some_texts(12)
    joined = some_texts(500)[-1]
    assert joined.kind == "joined"
    assert " " in joined.text
