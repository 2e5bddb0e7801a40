"""``ditto generate``: text that follows a prompt nobody sees."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ditto.cli.bundles import SCRIPTS, continue_bundle, is_bundle, refuse_options
from ditto.cli.early import early_parties
from ditto.cli.exit_codes import ExitCode
from ditto.cli.private_text import read_prompt
from ditto.cli.progress import stages
from ditto.cli.remote import (
    REMOTE,
    AsMember,
    OfDeployment,
    Pinned,
    continue_deployment,
)
from ditto.cli.report import JsonFile, Quiet, Report, Verbose
from ditto.cli.show import (
    CalibrationFile,
    Gelu,
    Margin,
    ModelOrBundle,
    NoCache,
    NoFloat,
    NoServe,
    OutOfRange,
    ProfileName,
    PublicSystem,
    calibration_texts,
    chosen_cache,
    chosen_profile,
    cost_table,
    costs_as_json,
    doubt_line,
    public_prefix,
    table,
    verdict_line,
)
from ditto.cli.words import put_warnings_in_words
from ditto.errors import SetupError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ditto.api.answers import Token
    from ditto.api.local import Run
    from ditto.client import Tokenizer
    from ditto.files import Json


def generate(
    context: typer.Context,
    model_dir: ModelOrBundle,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="What the text begins with; if left out or `-`, standard input. Other "
            "users of this machine see what stands on a command line."
        ),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="The prompt is what a user says: the model's chat template is put "
            "around it, on this machine.",
        ),
    ] = False,
    public_system: PublicSystem = None,
    tokens: Annotated[int, typer.Option(help="How many to generate.", min=1)] = 20,
    temperature: Annotated[
        float, typer.Option(help="0 takes the likeliest token; above, one is drawn.")
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(help="Draw from the k likeliest tokens only; 0: from all.")
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(help="Draw from the likeliest that hold this probability."),
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Repeats a draw.")] = None,
    reveal: Annotated[
        str,
        typer.Option(
            help="What the client learns: logits, or token: then the parties choose "
            "the likeliest, and the client learns nothing else."
        ),
    ] = "logits",
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    out_of_range: OutOfRange = "retry",
    deployment: OfDeployment = None,
    credentials: AsMember = None,
    pinned: Pinned = None,
    no_cache: NoCache = False,
    no_serve: NoServe = False,
    no_float: NoFloat = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue a prompt that nobody sees, token by token.

    Keys and values of what came before stay with the three parties as shares, so each
    further token costs one position and not the whole text again. The tokens appear as
    they come; below stands what the float model would have said, and the cost. A token
    whose logits are further from the float model's than they may be is named, and the
    command ends with code 3.

    Of a bundle of `ditto export` there is the private text alone, in the shapes that it
    was exported with, chosen from the logits. With `--deployment` the parties are those
    of three organisations, and MODEL_DIR is the name of a model published there.
    """
    report = Report(json_file)
    text = read_prompt(prompt)
    from ditto.client import Sampling
    from ditto.client.out_of_range import check_policy

    sampling = Sampling(temperature, top_k, top_p, seed)
    drawing = ("temperature", "top_k", "top_p", "seed")
    taken = ("prompt", "tokens", "out_of_range", "no_float", *SCRIPTS, *drawing)
    if deployment is not None:
        refuse_options(context, *taken, *REMOTE)
        with stages(quiet=quiet, verbose=verbose) as shown:
            continue_deployment(
                deployment, credentials, str(model_dir), pinned, text, tokens,
                sampling, check_policy(out_of_range), report, shown,
            )  # fmt: skip
        return
    asked, chat = _asked(model_dir, text, public_system, chat=chat)
    cache = chosen_cache(no_cache)
    launched = early_parties(model_dir, cache, no_serve=no_serve)
    from ditto.api import from_pretrained
    from ditto.api.backends import PartiesBackend

    if is_bundle(model_dir):
        refuse_options(context, *taken)
        with stages(quiet=quiet, verbose=verbose) as shown:
            continue_bundle(
                model_dir, text, tokens, sampling, check_policy(out_of_range), report,
                shown,
            )  # fmt: skip
        return
    model, stream = None, None
    put_warnings_in_words()
    try:
        with stages(quiet=quiet, verbose=verbose) as shown:
            model = from_pretrained(
                model_dir,
                profile=chosen_profile(profile, gelu, margin),
                calibration=calibration_texts(calibration),
                check=not no_float,
                on_out_of_range=check_policy(out_of_range),
                on_stage=shown.stage,
                on_part=shown.part,
                trio=launched,
                cache=cache,
                warm=not no_serve,
                public_prefix=public_prefix(model_dir, public_system),
            )
            stream = model.stream(
                asked,
                tokens,
                sampling=sampling,
                add_special_tokens=not chat,
                reveal=reveal,  # type: ignore[arg-type]
            )
            first = next(stream)
        made = [first]
        report.stream(f"{text}\n{first.texts[0]}" if chat else text + first.texts[0])
        for token in stream:
            made.append(token)
            report.stream(token.texts[0])
        report.stream("\n\n")
        backend = model.backend
    finally:
        if stream is not None:
            stream.close()
        if model is not None:
            model.close()
    if not no_float and (temperature == 0 or seed is not None):
        plain = model.with_mode("float")
        exact = plain.stream(
            asked, tokens, sampling=sampling, add_special_tokens=not chat
        )
        report.print(_compared(made, list(exact), plain.tokenizer), markup=False)
    doubts = _report_doubts(report, made)
    if isinstance(backend, PartiesBackend):
        for costs in _costs(backend.runs):
            report.print(costs)
        report.write(
            {
                "model": model.name,
                "profile": profile,
                "prompt": text,
                **_as_json(made),
                "doubts": {str(k): doubt for k, doubt in doubts.items()},
            }
            | costs_as_json(backend.runs, sum(backend.uploaded))
        )
    if doubts or any(token.in_range is False for token in made):
        raise typer.Exit(ExitCode.DOUBTFUL)


def _asked(
    model_dir: Path, text: str, system: str | None, *, chat: bool
) -> tuple[str, bool]:
    """The whole prompt, and whether it is that of a conversation."""
    if system is None and not chat:
        return text, False
    return _as_conversation(model_dir, text, system or ""), True


def _as_conversation(model_dir: Path, text: str, system: str) -> str:
    """The prompt of a conversation in which a user has said this."""
    from ditto.extras import require
    from ditto.models.chat_files import read_chat_files
    from ditto.models.hub import find_folder

    require("jinja2")
    from ditto.models.chat_template import ChatTemplate, conversation

    if is_bundle(model_dir):  # which says which options it takes
        return text
    chat = read_chat_files(find_folder(model_dir))
    if chat.template is None:
        raise SetupError(
            f"{model_dir} has no chat template: the model continues texts. Leave out "
            "--chat."
        )
    messages = conversation(text, system)
    return ChatTemplate(chat.template).render(messages, chat.special_tokens)


def _report_doubts(report: Report, made: "list[Token]") -> dict[int, str]:
    """Name the tokens that are not to be trusted, and say why."""
    doubts = {k: d for k, token in enumerate(made, 1) for d in token.doubts if d}
    for k, doubt in doubts.items():
        report.print(doubt_line(f"token {k}", doubt))
    for line in _verdicts(made):
        report.print(line)
    return doubts


def _as_json(made: "list[Token]") -> "Json":
    verdicts = {token.in_range for token in made}
    return {
        "text": "".join(token.texts[0] for token in made),
        "tokens": [token.ids[0] for token in made],
        "in_range": None if None in verdicts else False not in verdicts,
        "wide": any(token.wide for token in made),
    }


def _costs(runs: "Sequence[Run]") -> "Iterator[Table]":
    """What the first and the second token cost, and all of them by part."""
    rows = [
        [what, f"{run.bytes / 1e6:.2f}", f"{run.rounds:.0f}", f"{run.seconds:.2f}"]
        for what, run in zip(("first", "second"), runs, strict=False)
    ]
    numbers = ["MB", "rounds", "seconds"]
    yield table("Cost of a token, all parties", ["token"], numbers, rows)
    yield cost_table(runs, f"Cost of all {len(runs)} tokens, by part")


def _verdicts(made: "list[Token]") -> "Iterator[Text]":
    """What is said of tokens on whose way a value left its range."""
    wide = next((k for k, token in enumerate(made, 1) if token.wide), None)
    lines = [
        verdict_line(f"token {k}", token.in_range) for k, token in enumerate(made, 1)
    ]
    if wide is not None:
        what = f"token {wide} and all after it"
        lines.append(verdict_line(what, in_range=True, wide=True))
    yield from filter(None, lines)


def _compared(made: "list[Token]", exact: "list[Token]", tokenizer: "Tokenizer") -> str:
    """How the tokens are to those of the float model."""
    ids, due = ([token.ids[0] for token in tokens] for tokens in (made, exact))
    pairs = enumerate(zip(ids, due, strict=False), 1)
    parting = next((k for k, (got, exact) in pairs if got != exact), None)
    if parting is None:
        return f"The float model says the same {len(ids)} tokens."
    text = tokenizer.decode(due)
    return f"The float model parts from it at token {parting}: {text!r}"
