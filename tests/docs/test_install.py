"""What a client installs: little, and no JAX and no SPU in it."""

import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 250


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client") / "venv"
    venv.create(folder, with_pip=True)
    done = subprocess.run(
        [folder / "bin" / "pip", "install", "--quiet", "--constraint",
         ROOT / "constraints.txt", f"{ROOT}[client,gateway]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def run(
    environment: Path, *command: str, folder: Path
) -> "subprocess.CompletedProcess[str]":
    program = environment / "bin" / command[0]
    return subprocess.run(
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False
    )


def test_it_is_small(environment: Path) -> None:
    size = sum(f.lstat().st_size for f in environment.rglob("*") if f.is_file())
    assert size < MOST_MEGABYTES * 10**6
    names = {path.name for path in environment.glob("lib/*/site-packages/*")}
    assert "grpc" in names
    assert not {"jax", "jaxlib", "spu"} & names


def test_it_asks_and_says_what_it_cannot(environment: Path, tmp_path: Path) -> None:
    asks = "import ditto; print(ditto.Client.__name__, ditto.AsyncClient.__name__)"
    done = run(environment, "python", "-c", asks, folder=tmp_path)
    assert done.stdout.split() == ["Client", "AsyncClient"], done.stderr
    done = run(environment, "python", "-m", "ditto.gateway.app", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    for command in (["run", "model", "--text", "thanks"], ["estimate", "model"]):
        done = run(environment, "ditto", *command, folder=tmp_path)
        assert done.returncode == 4, done.stderr
        assert "pip install 'ditto-mpc[local]'" in done.stderr
        assert "Traceback" not in done.stderr
