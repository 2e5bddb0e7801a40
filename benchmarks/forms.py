"""What a model costs with each form of activation and attention that students have.

python -m benchmarks.forms MODEL_DIR --tokens 32,128 --json docs/results/forms.json
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import show
from ditto.analysis import estimate
from ditto.cli.progress import stages
from ditto.client import Tokenizer
from ditto.compiler import find_profile
from ditto.files import Json
from ditto.models import load_model
from ditto.models.computation import Computation, Phase
from ditto.owner.plans import Plans
from ditto.owner.samples import TextSamples

FORMS: tuple[Json, ...] = (
    {},
    {"hidden_act": "quad"},
    {"hidden_act": "quad", "attention_weights": "relu"},
    {"hidden_act": "quad", "attention_weights": "square"},
)


def main(
    model_dir: Annotated[Path, typer.Argument(help="A Hugging Face folder.")],
    tokens: Annotated[str, typer.Option(help="Separated by commas.")] = "32,128",
    json_file: show.JsonFile = None,
    markdown: show.MarkdownFile = None,
) -> None:
    """Compile a model with every form, and tell bytes and rounds of an answer."""
    model, tokenizer = load_model(model_dir), Tokenizer.load(model_dir)
    rows: list[Json] = []
    with stages() as shown:
        for form in FORMS:
            student = model.with_config(**form)
            plans = Plans(student, find_profile("ditto"), TextSamples(tokenizer))
            for length in (int(each) for each in show.names(tokens)):
                shown.stage(f"compiling for {length} tokens: {form or 'as it is'}")
                cost = estimate(plans.plan(Computation(Phase.FORWARD, 1, length)))
                rows.append(
                    {
                        "activation": form.get("hidden_act", "gelu"),
                        "attention_weights": form.get("attention_weights", "softmax"),
                        "tokens": length,
                        "bytes": round(cost.bytes),
                        "rounds": round(cost.rounds),
                    }
                )
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=1) + "\n")
    show.show(
        "an answer costs",
        ["activation", "attention"],
        ["tokens", "MB", "rounds"],
        [
            [
                row["activation"],
                row["attention_weights"],
                f"{row['tokens']}",
                f"{row['bytes'] / 1e6:,.1f}",
                f"{row['rounds']:,}",
            ]
            for row in rows
        ],
        markdown,
    )


if __name__ == "__main__":
    show.run(main)
