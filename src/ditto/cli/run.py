"""``ditto run``: a private answer about a text, beside the float answer."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ditto.cli.bundles import SCRIPTS, ask_bundle, is_bundle, refuse_options
from ditto.cli.early import early_parties
from ditto.cli.exit_codes import ExitCode
from ditto.cli.private_text import TextFile, read_texts
from ditto.cli.progress import stages
from ditto.cli.remote import REMOTE, AsMember, OfDeployment, Pinned, ask_deployment
from ditto.cli.report import JsonFile, Quiet, Report, Verbose
from ditto.cli.show import (
    Audited,
    CalibrationFile,
    Gelu,
    Head,
    HideLength,
    Margin,
    ModelOrBundle,
    NoCache,
    NoFloat,
    NoServe,
    OutOfRange,
    ProfileName,
    calibration_texts,
    chosen_cache,
    chosen_profile,
    cost_table,
    costs_as_json,
    doubt_line,
    table,
    verdict_line,
)
from ditto.cli.words import (
    PromptNameOption,
    PromptOption,
    TooLongOption,
    answer_as_json,
    chosen_too_long,
    cut_lines,
    shown_answer,
    shown_text,
)

if TYPE_CHECKING:
    from ditto.api import Answer
    from ditto.files import Json


def run(
    context: typer.Context,
    model_dir: ModelOrBundle,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="What to ask; may be repeated. `-`: standard input, which also serves "
            "if there is neither --text nor --file. Other users of this machine see "
            "what stands on a command line.",
        ),
    ] = None,
    file: TextFile = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            help="Second texts, for tasks on pairs; one for each --text. Of a question "
            "the text that has the answer."
        ),
    ] = None,
    prompt: PromptOption = None,
    prompt_name: PromptNameOption = None,
    profile: ProfileName = "ditto",
    gelu: Gelu = None,
    head: Head = None,
    calibration: CalibrationFile = None,
    margin: Margin = None,
    length: Annotated[
        int | None,
        typer.Option(help="Pad to this many tokens instead of the next bucket.", min=2),
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts asked together.", min=1)] = 1,
    hide_length: HideLength = False,
    too_long: TooLongOption = "cut",
    out_of_range: OutOfRange = "retry",
    audit: Audited = "off",
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
    """Ask a model about a text that nobody sees.

    Three parties, each a process of this machine over TLS links, compute on secret
    shares of the text and of the weights. Beside their answer stands the float model's,
    and below what it cost by part of the model. An answer further from the float
    model's than it may be is marked, and the command ends with code 3.

    The parties tell the client if a value left the range that the model is prepared
    for; such a text is asked again with wide margins.

    Of a bundle of `ditto export` there is the private answer alone, in the shapes and
    with the options that it was exported with.

    With `--deployment` the parties are those of three organisations, and MODEL_DIR is
    the name of a model that its owner published there.
    """
    report = Report(json_file)
    texts, pairs = read_texts(text, file, pair)
    from ditto.client.out_of_range import check_policy
    from ditto.plan import check_audit

    asked: dict[str, Any] = {
        "too_long": chosen_too_long(too_long),
        "prompt": prompt,
        "prompt_name": prompt_name,
    }
    if deployment is not None:
        refuse_options(
            context, "text", "file", "pair", "out_of_range", "no_float", "audit",
            *SCRIPTS, *asked, *REMOTE,
        )  # fmt: skip
        with stages(quiet=quiet, verbose=verbose) as shown:
            ask_deployment(
                deployment, credentials, str(model_dir), pinned, texts, pairs,
                check_policy(out_of_range), asked, check_audit(audit), report, shown,
            )  # fmt: skip
        return
    cache = chosen_cache(no_cache)
    launched = early_parties(model_dir, cache, no_serve=no_serve)
    if is_bundle(model_dir):
        taken = ("text", "file", "pair", "out_of_range", "no_float")
        refuse_options(context, *taken, *SCRIPTS, *asked)
        with stages(quiet=quiet, verbose=verbose) as shown:
            policy = check_policy(out_of_range)
            ask_bundle(model_dir, texts, pairs, policy, asked, report, shown)
        return
    from ditto.api import from_pretrained
    from ditto.api.backends import PartiesBackend
    from ditto.errors import AnswerWarning, TextCutWarning

    exact: Sequence[Answer] | None = None
    with stages(quiet=quiet, verbose=verbose) as shown:
        model = from_pretrained(
            model_dir,
            profile=chosen_profile(profile, gelu, margin),
            head=head,
            calibration=calibration_texts(calibration),
            hide_length=hide_length,
            check=not no_float,
            on_out_of_range=check_policy(out_of_range),
            on_stage=shown.stage,
            on_part=shown.part,
            trio=launched,
            cache=cache,
            warm=not no_serve,
            audit=check_audit(audit),
        )
        with model, warnings.catch_warnings():
            warnings.simplefilter("ignore", AnswerWarning)  # told below
            warnings.simplefilter("ignore", TextCutWarning)
            answers = model.predict(
                texts, pairs, batch_size=batch, pad_to=length, **asked
            )
            backend = model.backend
            if not no_float:
                plain = model.with_mode("float")
                exact = plain.predict(texts, pairs, pad_to=length, **asked)
    _report_answers(report, texts, pairs, answers, exact)
    if isinstance(backend, PartiesBackend):
        report.print(cost_table(backend.runs, f"Cost, all parties, profile {profile}"))
        sent = sum(backend.uploaded) / 1e3
        for covered in sorted({run.audit for run in backend.runs} - {""}):
            report.print(covered)
        report.print(f"the client sent {sent:.1f} kB of keys and shares to the parties")
        seconds: Sequence[str | None] = pairs or [None] * len(texts)
        found = [
            _as_json(*each) | {"bucket": length or model.bucket(each[-1].used_tokens)}
            for each in zip(texts, seconds, answers, strict=True)
        ]
        report.write(
            {"model": model.name, "profile": profile, "answers": found}
            | costs_as_json(backend.runs, sum(backend.uploaded))
        )
    if any(answer.doubt or answer.in_range is False for answer in answers):
        raise typer.Exit(ExitCode.DOUBTFUL)


def _report_answers(
    report: Report,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    answers: "Sequence[Answer]",
    exact: "Sequence[Answer] | None",
) -> None:
    """Print the answers, beside the float model's if there are any."""
    seconds: Sequence[str | None] = pairs or [None] * len(texts)
    rows = [
        [shown_text(one, two), shown_answer(answer)]
        for one, two, answer in zip(texts, seconds, answers, strict=True)
    ]
    if exact is None:
        report.print(table("Answers", ["text", "private answer"], [], rows))
    else:
        for row, answer, due in zip(rows, answers, exact, strict=True):
            row += [shown_answer(due), _likeness(answer)]
        headings = ["text", "private answer", "float answer"]
        figure = "cosine" if answers[0].head.is_embedding else "difference"
        report.print(table("Answers", headings, [figure], rows))
    for line in cut_lines(answers):
        report.print(line)
    for k, answer in enumerate(answers, 1):
        what = f"the answer to text {k}"
        if answer.doubt is not None:
            report.print(doubt_line(what, answer.doubt))
        verdict = verdict_line(what, answer.in_range, wide=answer.wide)
        if verdict is not None:
            report.print(verdict)


def _likeness(answer: "Answer") -> str:
    """How near an answer is to the float model's."""
    shown = "" if answer.difference is None else f"{answer.difference:.1%}"
    if answer.cosine is not None:
        shown = f"{answer.cosine:.5f}"
    return f"{shown} (!)" if answer.doubt else shown


def _as_json(text: str, pair: str | None, answer: "Answer") -> "Json":
    return answer_as_json(answer, text, pair) | {
        "difference": answer.difference,
        "cosine": answer.cosine,
        "doubt": answer.doubt,
        "wide": answer.wide,
    }
