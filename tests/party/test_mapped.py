"""Share files are mapped, and damaged ones refused."""

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ditto.errors import PlanError
from ditto.party.mapped import map_tensors


def test_tensors_are_those_that_were_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = {
        "a": rng.integers(0, 1 << 32, (3, 5), np.uint32),
        "b": rng.integers(0, 1 << 63, (2, 2, 2), np.uint64),
        "c": rng.integers(0, 255, 7, np.uint8),
        "one": np.array(5, np.uint64),
        "none": np.zeros((0, 4), np.uint32),
    }
    save_file(tensors, tmp_path / "x.safetensors")
    mapped = map_tensors(tmp_path / "x.safetensors")
    assert mapped.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert mapped[name].dtype == tensor.dtype
        assert np.array_equal(mapped[name], tensor)
        assert not mapped[name].flags.writeable or not mapped[name].size


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "U32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "U32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "U32", "shape": [-1], "data_offsets": [0, -4]},
        {"dtype": "U32", "shape": [1], "data_offsets": [0]},
        {"dtype": "U32", "shape": [1]},
        3,
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, entry: object) -> None:
    header = json.dumps({"x": entry}).encode()
    file = tmp_path / "x"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(PlanError, match="not a file of shares"):
        map_tensors(file)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    rng = random.Random(seed)
    file = tmp_path / "x"
    save_file({"a": np.arange(6, dtype=np.uint32)}, file)
    content = file.read_bytes()
    for _ in range(2000):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(damaged[: rng.randint(0, len(damaged))])
        try:
            map_tensors(file)
        except PlanError:
            continue
