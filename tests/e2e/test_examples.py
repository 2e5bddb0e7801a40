"""The examples run as the tutorial says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "your-own-function.md"


def run(example: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / example)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_private_linear_layer() -> None:
    said = run("01_private_linear_layer.py")
    found = re.search(r"largest error (\S+), (\S+) MB", said)
    assert found is not None, said
    assert float(found.group(1)) < 0.01
    assert float(found.group(2)) == round(128 * 768 * (2 * 20 + 32 + 3 * 14) / 8e6, 2)
    assert f"{found.group(2)} MB between the parties" in TUTORIAL.read_text()


def test_compile_a_function() -> None:
    said = run("02_compile_a_function.py")
    found = re.search(r"largest error (\S+), (\S+) MB, (\d+) rounds", said)
    assert found is not None, said
    assert float(found.group(1)) < 0.01
    cost = f"{found.group(2)} MB, {found.group(3)} rounds"
    assert cost in TUTORIAL.read_text()
    assert "einsum + recast" in said
