"""The model card of a student: what it is, what it scores, what it costs."""

from pathlib import Path

from ditto.files import Json
from ditto.training.settings import DistillSettings

CARD = "README.md"
_WHO = {
    "float": "in float",
    "simulate": "in the simulator",
    "mpc": "by three parties",
}


def write_card(file: Path, result: Json, settings: DistillSettings) -> None:
    """Markdown with the front matter that Hugging Face reads."""
    file.write_text(card(result, settings))


def card(result: Json, settings: DistillSettings) -> str:
    """The text of a card."""
    metric = result["metric"]
    teacher = Path(settings.teacher_model_name_or_path).name
    changes = {
        "activation": settings.activation,
        "attention_weights": settings.attention_weights,
    }
    changed = ", ".join(f"{name} `{to}`" for name, to in changes.items() if to)
    lines = [
        "---",
        "library_name: ditto",
        f"base_model: {teacher}",
        "tags: [ditto, distillation, private-inference]",
        "---",
        "",
        f"# A student of {teacher}",
        "",
        f"Distilled for private inference by three parties with Ditto, profile "
        f"`{settings.profile}`: {changed or 'the same network'}.",
        "No other software knows this network: it refuses the folder, because of the "
        "name of its activation."
        if settings.activation
        else "Other software reads the folder as the same network in float.",
        "",
        f"| computed | examples | {metric} | agreement with the teacher |",
        "|---|---:|---:|---:|",
        _row("the teacher, in float", result["teacher"], metric),
        _row("before training, in the simulator", result["untrained"], metric),
        *(
            _row(f"the student, {_WHO[each['mode']]}", each, metric)
            for each in result["student"]
        ),
        "",
        *(
            f"Stage `{stage}` made it no better, and is not in its weights.\n"
            for stage in result["left_out"]
        ),
        "| tokens | bytes of the teacher | of the student | rounds of the teacher | "
        "of the student |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {ours['tokens']} | {theirs['bytes'] / 1e6:,.1f} MB | "
            f"{ours['bytes'] / 1e6:,.1f} MB | {theirs['rounds']:,.0f} | "
            f"{ours['rounds']:,.0f} |"
            for theirs, ours in zip(
                result["teacher_costs"], result["costs"], strict=True
            )
        ),
        "",
        "Bytes and rounds are those of one answer, all parties together, as the plan "
        "declares them.",
        "",
        "```console",
        '$ ditto run FOLDER "a text of yours"',
        "```",
        "",
    ]
    return "\n".join(lines)


def _row(who: str, measured: Json, metric: str) -> str:
    overflows = measured.get("overflows")
    lost = f" ({overflows} out of range)" if overflows else ""
    return (
        f"| {who} | {measured['examples']:,}{lost} | {measured[metric]:.4f} | "
        f"{measured['agreement']:.4f} |"
    )
