"""What a public system message saves: the same conversations with it and without.

\b
    python -m benchmarks.public_prefix MODEL_DIR

MODEL_DIR has a chat template. Its own system message, or ``--system``, is first part of
the private prompt, then computed in the clear by the owner. Three parties, each a
process of this machine, give three tokens to each of three questions; tokens must be
those of the float model, or the command says where they part.
"""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import show
from ditto.api import Pretrained, from_pretrained
from ditto.cli.progress import Stages, stages
from ditto.cli.show import public_prefix
from ditto.errors import SetupError
from ditto.files import Json
from ditto.models.chat_files import read_chat_files
from ditto.models.chat_template import ChatTemplate, conversation

OUT = Path("docs/results/public_prefix.json")
QUESTIONS = (
    "What is the capital of France?",
    "Name three colours.",
    "My doctor says it is a cold. What helps?",
)
TOKENS = 3


def main(
    model_dir: Annotated[Path, typer.Argument(help="The model's folder.", exists=True)],
    system: Annotated[
        str, typer.Option(help="The system message, if not that of the template.")
    ] = "",
    questions: Annotated[
        int, typer.Option(help="How many are asked.", min=1, max=len(QUESTIONS))
    ] = len(QUESTIONS),
    json_file: Annotated[
        Path, typer.Option("--json", help="Where results are written.")
    ] = OUT,
) -> None:
    """Bytes, rounds and seconds of the first token and of a further one."""
    chat = read_chat_files(model_dir)
    if chat.template is None:
        raise SetupError(f"{model_dir} has no chat template.")
    template = ChatTemplate(chat.template)
    prompts = [
        template.render(conversation(said, system), chat.special_tokens)
        for said in QUESTIONS[:questions]
    ]
    rows = []
    with stages(verbose=True) as shown:
        exact = from_pretrained(model_dir, mode="float")
        due = [_tokens(exact, prompt)[0] for prompt in prompts]
        for prefix in (None, public_prefix(model_dir, system)):
            rows.append(_measured(model_dir, prefix, prompts, due, shown))
            show.write(json_file, rows)
    cells = [
        [f"{row['public_tokens']}", f"{row['private_tokens']}", what,
         f"{cost['bytes'] / 1e6:.1f}", f"{cost['rounds']:g}", f"{cost['seconds']:.1f}"]
        for row in rows
        for what, cost in (("first", row["first"]), ("further", row["further"]))
    ]  # fmt: skip
    columns = ["MB", "rounds", "seconds"]
    texts = ["public", "private, padded", "token"]
    show.show("A public system message", texts, columns, cells, None)


def _tokens(model: Pretrained, prompt: str) -> tuple[list[int], list[Json]]:
    """The tokens after a prompt, and what each cost the parties, if they computed."""
    tokens, costs = [], []
    for token in model.stream(prompt, TOKENS, add_special_tokens=False):
        tokens.append(token.ids[0])
        if (run := model.last_run) is not None:
            seconds = round(run.seconds, 2)
            costs.append({"bytes": run.bytes, "rounds": run.rounds, "seconds": seconds})
    return tokens, costs


def _measured(
    model_dir: Path,
    prefix: str | None,
    prompts: list[str],
    due: list[list[int]],
    shown: Stages,
) -> Json:
    model = from_pretrained(
        model_dir, check=False, warm=False, on_stage=shown.stage, public_prefix=prefix
    )
    with model:
        given = [_tokens(model, prompt) for prompt in prompts]
    first, *_, further = given[-1][1]
    count = len(model.public_prefix)
    encode = model.tokenizer.encode
    longest = max(len(encode(p, add_special_tokens=False).ids) for p in prompts)
    return {
        "public_tokens": count,
        "private_tokens": model.bucket(longest - count),
        "questions": len(prompts),
        "same": sum(got == exact for (got, _), exact in zip(given, due, strict=True)),
        "first": first,
        "further": further,
    }


if __name__ == "__main__":
    show.run(main, __doc__)
