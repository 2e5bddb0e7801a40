"""A gateway as people start it, with tiny models."""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search import running_gateway
from ditto.models import random_model
from tests.folders import TEXTS, WORDS, gpt2_folder, write_model


@dataclass(frozen=True)
class Process:
    """A gateway as people start it."""

    address: str
    root: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        return (self.root / "out").read_text() + (self.root / "err").read_text()


def tiny_models(root: Path) -> list[Path]:
    """An encoder of sentences, and a GPT-2 that converses in few tokens."""
    gpt2 = gpt2_folder(root / "gpt2", layers=1, positions=128)
    template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% endfor %}"
    (gpt2 / "chat_template.jinja").write_text(template)
    return [embedding_folder(root / "embed"), gpt2]


def embedding_folder(folder: Path) -> Path:
    """As sentence-transformers writes it."""
    model = random_model(
        "bert-tiny", hidden_size=32, intermediate_size=128, num_hidden_layers=1,
        vocab_size=len(WORDS), seed=3,
    )  # fmt: skip
    write_model(folder, model)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"architectures": ["BertModel"]})
    )
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_N", "Normalize")]
    listed = [{"path": path, "type": f"models.{kind}"} for path, kind in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@contextmanager
def tiny_gateway() -> Iterator[Process]:
    """A gateway over two tiny models."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = root / "texts.txt"
        texts.write_text("\n".join(TEXTS) + "\n")
        folders = [str(model) for model in tiny_models(root)]
        prepared = ("--length", "8", "--calibration", str(texts))
        with running_gateway(root, "--local", *folders, *prepared) as running:
            process = running[1]
            yield Process(running[0], root, process)
        assert process.returncode == 128 + signal.SIGTERM
