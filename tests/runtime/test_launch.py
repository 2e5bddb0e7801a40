"""Processes of parties end with whoever holds them."""

import gc
import stat
from pathlib import Path

from ditto.launch import Launched, keeping


def test_they_end_when_nobody_holds_them() -> None:
    launched = Launched()
    processes = launched.processes
    assert [process.poll() for process in processes] == [None] * 3
    del launched
    gc.collect()
    assert all(process.poll() is not None for process in processes)


def test_each_keeps_what_it_compiles_for_itself(tmp_path: Path) -> None:
    kept = [keeping(tmp_path, f"party{rank}") for rank in range(3)]
    folders = {each["JAX_COMPILATION_CACHE_DIR"] for each in kept}
    assert len(folders) == 3
    assert all(stat.S_IMODE(Path(f).stat().st_mode) == 0o700 for f in folders)
    assert keeping(None, "party0") == {}


def test_nothing_is_kept_where_others_may_write(tmp_path: Path) -> None:
    folder = Path(keeping(tmp_path, "party0")["JAX_COMPILATION_CACHE_DIR"])
    folder.chmod(0o777)
    assert keeping(tmp_path, "party0") == {}
