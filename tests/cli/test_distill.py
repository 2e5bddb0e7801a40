"""What ``ditto distill`` says."""

import io
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from ditto.cli import app
from ditto.cli.distill import costs, scores
from ditto.models import random_model
from ditto.training.distill import Cost, Distillation
from ditto.training.measure import Measured
from tests.documents import check_document


def measured(mode: str, examples: int, matthews: float) -> Measured:
    found = {"matthews": matthews, "accuracy": 0.75, "agreement": 0.9876}
    return Measured(mode, examples, found, overflows=3)  # type: ignore[arg-type]


DONE = Distillation(
    folder=Path("students/of-a-long-name/cola-quad"),
    student=random_model("bert-tiny"),
    metric="matthews",
    teacher=measured("float", 1043, 0.281),
    untrained=measured("simulate", 100, 0.01),
    costs=(Cost(16, 21.2e6, 480), Cost(32, 48.5e6, 485)),
    teacher_costs=(Cost(16, 55.3e6, 590), Cost(32, 118.2e6, 599)),
    measured=(
        measured("float", 1043, 0.275),
        measured("simulate", 100, 0.273),
        measured("mpc", 4, 0.5),
    ),
)


def printed(width: int) -> str:
    text = io.StringIO()
    console = Console(width=width, file=text)
    console.print(scores(DONE))
    console.print(costs(DONE))
    return text.getvalue()


def test_scores_and_costs_fit_80_columns() -> None:
    lines = printed(80).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    told = {" ".join(line.split()) for line in lines}
    assert "student, three parties 4 0.5000 0.9876 3" in told
    assert "teacher, float 1,043 0.2810 0.9876" in told
    assert "32 118.2 48.5 599 485" in told


def test_what_scripts_are_told() -> None:
    check_document("distill", DONE.as_json())


def test_settings_are_flags_in_both_spellings() -> None:
    shown = CliRunner().invoke(app, ["distill", "--help"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    for name in ("teacher_model_name_or_path", "attention_weights", "mpc_samples"):
        assert f"--{name}" in shown.output


def test_a_setting_that_is_missing_is_named() -> None:
    done = CliRunner().invoke(app, ["distill", "--activation", "quad"])
    assert done.exit_code != 0
    assert "output_dir" in str(done.exception) + done.output
