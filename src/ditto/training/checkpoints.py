"""Checkpoints of a run: a folder ``checkpoint-N`` appears as a whole or not at all.

``state.safetensors`` has weights and optimizer, bit for bit; ``trainer_state.json`` the
step, the scores and what the run was told.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ditto.errors import SetupError
from ditto.files import Json, read_limited
from ditto.fixedpoint import Array
from ditto.plan import Tree

_ARRAYS = "state.safetensors"
_STATE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d{1,9})")
_MAX_STATE = 1 << 20


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint after so many steps stands."""
    return folder / f"checkpoint-{step}"


def steps_saved(folder: Path) -> list[int]:
    """The steps that there are checkpoints of, in order."""
    names = (_NAME.fullmatch(path.name) for path in folder.glob("checkpoint-*"))
    return sorted(int(name[1]) for name in names if name)


def save_checkpoint(folder: Path, step: int, arrays: Tree, state: Json) -> None:
    """Write the checkpoint of a step."""
    from safetensors.numpy import save_file

    target = checkpoint_folder(folder, step)
    named = {name: np.asarray(array) for name, array in _named(arrays).items()}
    with new_folder(target) as fresh:
        save_file(named, fresh / _ARRAYS)
        (fresh / _STATE).write_text(json.dumps(state, indent=1) + "\n")


def load_checkpoint(path: Path, like: Tree) -> tuple[Tree, Json]:
    """The arrays of a checkpoint in the form of ``like``, and its state."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    content = read_limited(path / _STATE, _MAX_STATE, SetupError, "1 MiB")
    try:
        state = json.loads(content)
        loaded: dict[str, Array] = load_file(path / _ARRAYS)
    except (SafetensorError, OSError, ValueError) as error:
        raise SetupError(f"{path} is no checkpoint of a run: {error}") from None
    expected = _named(like)
    for name, array in expected.items():
        saved = loaded.get(name)
        if saved is None or saved.shape != array.shape or saved.dtype != array.dtype:
            raise SetupError(
                f"{path} is a checkpoint of another model: {name} is not there as "
                f"{array.dtype} of shape {array.shape}."
            )
    if not isinstance(state, dict):
        raise SetupError(f"{path / _STATE} does not hold a JSON object.")
    leaves = [jnp.asarray(loaded[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), state


def newest_checkpoint(folder: Path) -> Path:
    """Of the checkpoints in a folder, that of the most steps."""
    steps = steps_saved(folder)
    if not steps:
        raise SetupError(
            f"{folder} has no checkpoint to resume from. Leave resume_from_checkpoint "
            "out to begin."
        )
    return checkpoint_folder(folder, steps[-1])


def drop_checkpoints(folder: Path, keep: Collection[int]) -> None:
    """Remove all checkpoints but those of these steps."""
    for step in steps_saved(folder):
        if step not in keep:
            shutil.rmtree(checkpoint_folder(folder, step))


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which then takes the place of ``target``."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield fresh
        for file in fresh.iterdir():
            _flush(file)
        fresh.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _flush(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(tree: Tree) -> dict[str, jax.Array]:
    """The leaves of a tree by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
