"""``ditto gateway`` refuses what cannot be, before any work is done."""

import socket
from pathlib import Path

import pytest

from ditto.cli.exit_codes import ExitCode
from ditto.cli.gateway import _folders, _read_keys, _warn_of_strangers
from ditto.errors import SetupError
from tests.cli.test_cli import ditto


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Say who answers"),
        (["--local", "m", "--deployment", "d.toml"], "Say who answers"),
        (["--deployment", "d.toml"], "needs --as FOLDER"),
        (["--deployment", "d.toml", "--as", "me", "m"], "name no folder"),
        (["--deployment", "d.toml", "--as", "me"], "d.toml cannot be read"),
        (["--local", "m", "--api-key-file", "none"], "cannot be read"),
    ],
)
def test_who_answers_must_be_clear(arguments: list[str], said: str) -> None:
    done = ditto("gateway", *arguments, "--port", "0")
    assert done.returncode == ExitCode.SETUP
    assert said in done.stderr


def test_a_port_that_is_taken_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = ditto("gateway", "--local", "m", "--port", port)
    assert done.returncode == ExitCode.SETUP
    assert "Choose another with --port" in done.stderr


def test_models_have_names() -> None:
    assert _folders(["a/x", "y=b/x"]) == {"x": Path("a/x"), "y": Path("b/x")}
    for wrong in (["a/x", "b/x"], ["=a"], ["a\tb=c"]):
        with pytest.raises(SetupError, match=r"[Nn]ame"):
            _folders(wrong)


def test_keys_are_long_and_nobody_elses(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("0123456789abcdef\n\n fedcba9876543210 \n")
    file.chmod(0o600)
    assert _read_keys(file) == (b"0123456789abcdef", b"fedcba9876543210")
    file.chmod(0o644)
    with pytest.raises(SetupError, match="chmod 600"):
        _read_keys(file)
    file.chmod(0o600)
    for content in ("", "short\n"):
        file.write_text(content)
        with pytest.raises(SetupError, match="16 letters"):
            _read_keys(file)


def test_other_machines_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    _warn_of_strangers("192.0.2.1", with_keys=False)
    said = " ".join(capsys.readouterr().err.split())
    assert "WARNING" in said
    assert "PLAIN TEXT" in said
    assert "whoever reaches the port may ask" in said
    _warn_of_strangers("192.0.2.1", with_keys=True)
    assert "may ask" not in capsys.readouterr().err
