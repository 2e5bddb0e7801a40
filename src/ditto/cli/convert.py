"""``ditto convert``: a folder with torch's files becomes one that can be read."""

from pathlib import Path
from typing import Annotated

import typer

from ditto.cli.report import console


def convert(
    model_dir: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_DIR",
            help="A Hugging Face folder with pytorch_model.bin, or a name on the hub.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The new folder; it must not exist.")
    ],
) -> None:
    """Write the weights of a folder as safetensors.

    Torch's own files are pickles, which may run code when they are read; `ditto run`
    does not read them. Here torch reads them without running anything in them, so it
    must be installed. Configuration, head, tokenizer and the modules of
    sentence-transformers are copied as they are.
    """
    from ditto.models.conversion import convert_folder
    from ditto.models.hub import find_folder

    convert_folder(find_folder(model_dir, pickled=True), out)
    console().print(f"{out}: written", markup=False)
