"""The setting for scaled positions: where it has an effect, and where it is refused."""

from pathlib import Path

import pytest

from tests.backends.conftest import write_tiny
from tests.codes import raises
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.delta import create_delta
from zoo.gym.train.loading import load_spec
from zoo.gym.train.rows import encode_options

GIVEN = ["model=m", "dataset=d.jsonl", "date=2026-01-01"]
FULL = ["finetuning_type=full", "rope_scaling=yarn"]


def settings(*items: str) -> TrainConfig:
    return load_config([], [*GIVEN, *items], {}).config


def test_rows_may_be_as_long_as_the_scaled_positions(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "model", tied=True)  # reads 512 tokens
    scaled = settings(*FULL, "cutoff_len=1200")
    assert encode_options(scaled, folder).cutoff_len == 1200
    assert encode_options(settings("cutoff_len=1200"), folder).cutoff_len == 512
    spec = load_spec(scaled).rope
    assert spec is not None
    assert (spec.kind, spec.tokens) == ("yarn", 1200)


def test_rows_that_the_model_reads_anyway_are_refused_before_it_is_loaded(tmp_path: Path) -> None:
    folder = write_tiny(tmp_path / "model", tied=True)
    with raises("train.rope_without_length", "rope_scaling: expected a cutoff_len above the 512"):
        encode_options(settings(*FULL, "cutoff_len=512"), folder)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["rope_scaling=yarn"], "rope_scaling=yarn: cannot be with finetuning_type lora"),
        ([*FULL, "stage=rm"], "rope_scaling=yarn: cannot be with stage rm"),
        (["finetuning_type=full", "rope_scaling=dynamic"], "change with the longest text"),
        (["finetuning_type=full", "rope_scaling=longrope"], "rope_scaling"),
    ],
)
def test_it_is_refused_where_it_could_not_be_kept(items: list[str], message: str) -> None:
    with raises("config.invalid", message):
        settings(*items)


def test_no_delta_is_made_of_a_model_with_other_positions(tmp_path: Path) -> None:
    base = write_tiny(tmp_path / "base", tied=True)
    tuned = write_tiny(tmp_path / "tuned", tied=True, seed=1)
    config = (tuned / "config.json").read_text()
    scaled = config.replace('"rope_type": "default"', '"rope_type": "linear", "factor": 2.0')
    assert scaled != config
    (tuned / "config.json").write_text(scaled)
    with raises("delta.other_positions", "as in the base, unscaled, got linear by 2"):
        create_delta(tuned, base=base, base_id="m", out=tmp_path / "x.delta.safetensors")
