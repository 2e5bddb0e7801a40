"""Prometheus finds data for every panel, and understands every alert."""

import shutil
from pathlib import Path

import pytest

from benchmarks.dashboard import main

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="the program prometheus is not installed (Debian: prometheus)",
)


def test_every_panel_has_data(tmp_path: Path) -> None:
    picture = tmp_path / "dashboard.png"
    main(picture, seconds=15)
    assert picture.stat().st_size > 20_000
