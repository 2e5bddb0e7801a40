"""Keys of local parties do not outlive the process that made them, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ditto.runtime import ProcessTrio
from ditto.runtime.certificates import key_folder, remove_leftovers

WAITING = """
import os, time
from ditto.runtime.certificates import key_folder

with key_folder() as folder:
    (folder / "alice.key").write_text("a key")
    os.write(1, str(folder).encode() + b"\\n")
    time.sleep(60)
"""
CONNECTING = """
import os, time
from ditto.runtime import ProcessTrio
from ditto.runtime.processes import _ProcessStub

asked = _ProcessStub.ask

def ask(self, body):  # P2 is not told to connect, so that the others wait for it
    if body["link"]["rank"] == 2:
        os.write(1, body["link"]["tls"]["key"].encode() + b"\\n")
        time.sleep(60)
    return asked(self, body)

_ProcessStub.ask = ask
ProcessTrio()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def started(code: str) -> tuple["subprocess.Popen[bytes]", Path]:
    """A process, and the path that it writes once it has keys on the disk."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().decode().strip())


def age(folder: Path) -> None:
    """As if it had been made a while ago."""
    os.utime(folder, (time.time() - 60,) * 2)


def test_the_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    process, folder = started(WAITING)
    with process:
        assert folder.parent == temporary
        age(folder)
        remove_leftovers()
        assert (folder / "alice.key").exists()  # it is alive
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (folder / "alice.key").exists()
    with ProcessTrio():
        assert list(temporary.iterdir()) == []


def test_the_parties_remove_the_keys_of_a_parent_that_was_killed(
    temporary: Path,
) -> None:
    """In the middle of connecting, and without another process to clean up."""
    process, key = started(CONNECTING)
    with process:
        assert key.exists()
        time.sleep(1.0)  # two parties have their configuration by now
        process.kill()
    deadline = time.monotonic() + 60  # they may still be starting
    while key.parent.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not key.parent.exists()


def test_only_key_folders_that_nobody_uses_are_removed(temporary: Path) -> None:
    names = ("ditto-trio-left", "ditto-trio-new", "another", "ditto-trio-link")
    left, new, other, link = (temporary / name for name in names)
    for folder in (left, new, other):
        folder.mkdir()
        (folder / "kept").touch()
    link.symlink_to(other)
    for folder in (left, other):
        age(folder)
    with key_folder() as mine:
        age(mine)
        remove_leftovers()
        assert set(temporary.iterdir()) == {new, other, link, mine}
    assert set(temporary.iterdir()) == {new, other, link}
    assert (other / "kept").exists()
