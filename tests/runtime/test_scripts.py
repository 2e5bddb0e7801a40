"""Scripts as people write them: what the parties' processes make of them."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

HELLO = """
import sys
from ditto.runtime import ProcessTrio

def hello(session, parameters, arrays):
    return {"rank": session.party.rank}, {}
"""
START = """
with ProcessTrio() as trio:
    print([reply["rank"] for reply, _ in trio.call(hello)])
"""
ENDING = """
def main():
    try:
        with ProcessTrio() as trio:
            trio.call(hello)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

sys.exit(main())
"""
LEFT_OPEN = """
trio = ProcessTrio()
trio.call(hello)
"""

ENDLESS = """
import os, time

def wait(session, parameters, arrays):
    time.sleep(60)
    return {}, {}

if __name__ == "__main__":
    trio = ProcessTrio()
    os.write(1, b"ready")
    trio.call(wait)
"""


def python(
    *arguments: str, folder: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Python with a folder for its temporary files; ended if it takes a minute."""
    (folder / "temporary").mkdir()
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
    )


def left_behind(folder: Path) -> list[object]:
    """Temporary folders of a script, and processes that still know of them."""
    mark = f"TMPDIR={folder / 'temporary'}".encode()
    deadline = time.monotonic() + 10
    while True:
        found: list[object] = list((folder / "temporary").iterdir())
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    found.append((process.name, (process / "cmdline").read_bytes()))
            except OSError:  # not ours, or it has just ended
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize("rest", [START, ENDING, LEFT_OPEN])
def test_a_script_without_a_main_guard_ends_with_the_reason(
    rest: str, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(HELLO + rest)
    done = python("script.py", folder=tmp_path)
    assert done.returncode == 1
    assert "SetupError" in done.stderr.splitlines()[-1]
    assert 'if __name__ == "__main__":' in done.stderr
    assert left_behind(tmp_path) == []


def test_a_script_with_a_main_guard_works(tmp_path: Path) -> None:
    guarded = 'if __name__ == "__main__":' + textwrap.indent(START, "    ")
    (tmp_path / "script.py").write_text(HELLO + guarded)
    done = python("script.py", folder=tmp_path)
    assert done.stdout.strip() == "[0, 1, 2]", done.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("way", [["-"], ["-c", HELLO + START]])
def test_a_function_that_stands_in_no_file_is_refused(
    way: list[str], tmp_path: Path
) -> None:
    done = python(*way, folder=tmp_path, stdin=HELLO + START)
    assert done.returncode == 1
    assert "SetupError: hello is defined interactively" in done.stderr
    assert left_behind(tmp_path) == []


def test_parties_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Even in a long call, and with no key left on the disk."""
    (tmp_path / "script.py").write_text(HELLO + ENDLESS)
    (tmp_path / "temporary").mkdir()
    script = subprocess.Popen(
        [sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )
    with script:
        assert script.stdout is not None
        assert script.stdout.read(5) == b"ready"
        assert list((tmp_path / "temporary").iterdir()) == []
        time.sleep(0.5)
        script.kill()
    assert left_behind(tmp_path) == []
