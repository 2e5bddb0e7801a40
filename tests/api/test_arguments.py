"""What is wrong with an argument is said of that argument, before anything runs."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import ditto
from ditto.api import from_pretrained
from ditto.api.pretrained import Pretrained
from ditto.errors import SetupError
from ditto.runtime import ThreadTrio
from tests.folders import bert_folder

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_folder(tmp_path_factory.mktemp("bert") / "small")


@pytest.fixture(scope="module")
def model(folder: Path) -> Pretrained:
    return from_pretrained(folder, mode="float")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([None], "Text 1 of texts is of type NoneType; a text is a str."),
        (["the cat", 3], "Text 2 of texts is of type int"),
        ([b"the cat"], "Text 1 of texts is of type bytes"),
        ([("the", "cat")], "Text 1 of texts is of type tuple"),
        ("the cat", "texts is a list of texts"),
        (None, "texts is a list of texts"),
    ],
)
def test_texts(model: Pretrained, texts: object, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        model.predict(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 0}, "batch_size=0: it is a whole number, 1 at least"),
        ({"batch_size": 1.5}, "batch_size=1.5: it is a whole number"),
        ({"batch_size": None}, "batch_size=None: it is a whole number"),
        ({"pad_to": 1}, "pad_to=1: it is a whole number, 2 at least and 512 at most"),
        ({"pad_to": 513}, "pad_to=513: .* 512 at most, the tokens that the model"),
        ({"pad_to": "8"}, "pad_to='8': it is a whole number"),
        ({"too_long": "keep"}, "too_long='keep' is neither"),
    ],
)
def test_options_of_predict(
    model: Pretrained, options: Mapping[str, object], said: str
) -> None:
    with pytest.raises(SetupError, match=said):
        model.predict(["the cat"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"calibration": "abc"}, "calibration takes a list of texts"),
        ({"calibration": ["the cat", 1]}, "Text 2 of calibration is 1; it is a str"),
        ({"calibration": [("the",)]}, r"Text 1 of calibration is \('the',\)"),
        ({"calibration": []}, "at least one text"),
        ({"mode": "clear"}, "Mode 'clear' is none of"),
        ({"profile": "best"}, "no profile 'best'; there are"),
        ({"margin": 0}, "margin=0: .* greater than or equal to 1"),
        ({"on_out_of_range": "hope"}, "on_out_of_range='hope' is none of"),
    ],
)
def test_options_of_a_model(
    folder: Path, options: Mapping[str, object], said: str
) -> None:
    with pytest.raises(SetupError, match=said):
        from_pretrained(folder, **{"mode": "float", **options})  # type: ignore[arg-type]


def test_a_model_says_what_it_is(model: Pretrained) -> None:
    assert repr(model) == (
        "<small: bert for text-classification, 2 layers, 0.0M weights, 512 tokens at "
        "most; profile ditto, mode float>"
    )


def test_the_log_says_what_is_done(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ditto")
    with ThreadTrio() as trio, from_pretrained(folder, trio=trio, cache=False) as model:
        model.predict(["the cat"])
    assert [m for m in caplog.messages if "calibrating" in m]
    assert [m for m in caplog.messages if "sharing the weights" in m]


def test_all_names_are_found_by_tab() -> None:
    assert {"from_pretrained", "compile", "simulate", "run_local"} <= set(dir(ditto))
