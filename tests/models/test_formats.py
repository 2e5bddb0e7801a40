"""Folders in other forms: refused with a way on that works when it is pasted."""

import json
import os
import pickle
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants

from ditto.api import from_pretrained
from ditto.errors import CheckpointError, SetupError
from ditto.models import read_checkpoint
from ditto.models.conversion import convert_folder
from ditto.models.hub import find_folder
from tests.cli.test_cli import ditto
from tests.folders import TEXTS, bert_folder


def pickled_folder(path: Path, *, shards: bool = False) -> Path:
    """A classifier as torch writes it, with names of old."""
    bert_folder(path)
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma"): torch.tensor(array)
        for name, array in read_checkpoint(path).tensors.items()
    }
    (path / "model.safetensors").unlink()
    if not shards:
        torch.save(tensors, path / "pytorch_model.bin")
        return path
    names = sorted(tensors)
    files = {name: f"pytorch_model-{k % 2}.bin" for k, name in enumerate(names)}
    for file in set(files.values()):
        part = {name: tensors[name] for name in names if files[name] == file}
        torch.save(part, path / file)
    index = json.dumps({"weight_map": files})
    (path / "pytorch_model.bin.index.json").write_text(index)
    return path


def test_the_printed_command_converts_and_nothing_is_lost(tmp_path: Path) -> None:
    """Head, labels and tokenizer are kept; the command is one line at 80 columns."""
    whole = bert_folder(tmp_path / "whole")
    folder = pickled_folder(tmp_path / ("a folder with a long name" * 3))
    refused = ditto("run", str(folder), "--text", TEXTS[0])
    assert refused.returncode == 4
    (command,) = [
        line for line in refused.stderr.splitlines() if line.startswith("ditto convert")
    ]
    assert len(command) > 80
    words = shlex.split(command)
    done = ditto(*words[1:])
    assert done.returncode == 0, done.stderr
    expected, got = (
        from_pretrained(each, mode="float").predict(TEXTS)
        for each in (whole, Path(words[-1]))
    )
    for one, other in zip(expected, got, strict=True):
        assert np.array_equal(one.logits, other.logits)
        assert one.label == other.label
    assert ditto(*words[1:]).returncode == 4  # it exists now


def test_shards_are_converted(tmp_path: Path) -> None:
    folder = pickled_folder(tmp_path / "shards", shards=True)
    with pytest.raises(
        CheckpointError, match=r"pytorch_model.bin.index.json, a pickle"
    ):
        read_checkpoint(folder)
    convert_folder(folder, tmp_path / "new")
    tensors = read_checkpoint(bert_folder(tmp_path / "whole")).tensors
    again = read_checkpoint(tmp_path / "new").tensors
    assert tensors.keys() == again.keys()
    assert all(np.array_equal(tensors[k], again[k]) for k in tensors)
    with pytest.raises(SetupError, match="exists already"):
        convert_folder(folder, tmp_path / "new")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("ran",)


def test_no_code_in_a_pickle_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = bert_folder(tmp_path / "evil")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Evil()}))
    with pytest.raises(CheckpointError, match="without running what is in it"):
        convert_folder(folder, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"evil"}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.gguf", b"GGUF", "holds model.gguf, of GGUF"),
        ("model.onnx", b"\x08", "holds model.onnx, of ONNX"),
        (
            "tf_model.h5",
            b"\x89HDF",
            "of TensorFlow, which is not read. Take the folder",
        ),
        ("readme.txt", b"", "no model.safetensors, nor"),
        (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "is a Git LFS pointer and not the file itself.*\ngit -C .* lfs pull",
        ),
    ],
)
def test_other_forms_are_named(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    if "GGUF" in reason or "ONNX" in reason:  # often without a configuration
        with pytest.raises(CheckpointError, match=reason):
            read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match=reason):
        read_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(CheckpointError, match="'mamba' are not supported"):
        read_checkpoint(tmp_path)


def test_paths_that_are_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"is a file\. Name the folder"):
        read_checkpoint(file)
    with pytest.raises(
        CheckpointError, match=r"has no config\.json: it is not a model"
    ):
        read_checkpoint(tmp_path)
    bert_folder(tmp_path / "inside")
    with pytest.raises(CheckpointError, match=r"config\.json, but .*inside has"):
        read_checkpoint(tmp_path)


def test_a_name_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Hugging Face's cache, without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="org/tiny is not a folder here, and as"):
        from_pretrained("org/tiny")
    kept, revision = tmp_path / "hub" / "models--org--tiny", "0" * 40
    snapshot = bert_folder(kept / "snapshots" / revision)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(revision)
    assert find_folder("org/tiny") == snapshot
    assert from_pretrained("org/tiny", mode="float").predict(TEXTS[:1])[0].label
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="\nditto convert org/tiny --out tiny-sa"):
        find_folder("org/tiny")
    shutil.copytree(snapshot, tmp_path / "org" / "tiny")
    assert find_folder("org/tiny") == Path("org/tiny")  # a folder goes first
    for path in ("absent", "/absent/folder", "../a/b", "a/b/c"):
        assert find_folder(path) == Path(path)
