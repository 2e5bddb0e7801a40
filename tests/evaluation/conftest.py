"""Data that the tests of evaluation share."""

from pathlib import Path

import pytest

from tests.folders import TEXTS


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts as a data set of two labels, in turn."""
    path = tmp_path_factory.mktemp("data") / "dev.tsv"
    rows = [f"{text}\t{k % 2}" for k, text in enumerate(TEXTS)]
    path.write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    return path
