"""A fine-tune of another base than the round's is refused, as far as its records tell."""

import shutil
import warnings
from pathlib import Path

import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.rounds.contribution.conftest import SHAPES, Round
from zoo.gym import AggregationMethod, DeltaSoup, DeltaSoupConfig
from zoo.gym.errors import GymWarning
from zoo.gym.jobs import Run
from zoo.gym.rounds.contribution.write import write_contribution
from zoo.gym.rounds.privacy.contribution import write_values
from zoo.gym.rounds.protocol.privacy import privacy_for
from zoo.gym.train.run_folder.base import check_same_base


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A base of the same shapes."""
    return disk.write_model(tmp_path / "other", disk.random_arrays(SHAPES, 5))


@pytest.fixture
def run(tmp_path: Path, tuned: Path) -> Run:
    """A run that is done, but for the record of its base."""
    run = Run(tmp_path / "r0001")
    run.folder.mkdir()
    run.config_file.write_text(f"model_name_or_path: {tmp_path / 'other'}\ndataset: d.jsonl\n")
    run.env_file.write_text("{}")
    shutil.copytree(tuned, run.result)
    return run


def adapter_of(folder: Path, base: Path, seed: int = 2) -> Path:
    arrays = disk.lora_arrays(SHAPES, 3, seed)
    return disk.write_adapter(folder, arrays, 3, base_model_name_or_path=str(base))


@pytest.mark.parametrize("inside", ["", "model.safetensors"])
def test_a_run_of_another_base_is_refused(
    inside: str, run: Run, base: Path, other: Path, round_of: Round, tmp_path: Path
) -> None:
    check_same_base(run.env_file, other)
    with raises("train.changed_base", "that run r0001 began with, got other: ") as caught:
        write_contribution(run.result / inside, base, round_of("float"), tmp_path / "c")
    assert f"round create NAME --base {other}" in str(caught.value.hint)


def test_a_run_of_the_base_is_taken(run: Run, base: Path, round_of: Round, tmp_path: Path) -> None:
    check_same_base(run.env_file, shutil.copytree(base, tmp_path / "copy"))
    assert write_contribution(run.result, base, round_of("float"), tmp_path / "c").path.is_file()


def test_an_adapter_that_names_another_folder_is_refused(
    base: Path, other: Path, round_of: Round, tmp_path: Path
) -> None:
    adapter = adapter_of(tmp_path / "adapter", other)
    with raises(
        "rounds.other_adapter_base", r"got one of .*other, which has other values"
    ) as caught:
        write_contribution(adapter, base, round_of("signs"), tmp_path / "c")
    assert "round create NAME --base" in str(caught.value.hint)


@pytest.mark.parametrize("changed", ["nothing", "what the round leaves alone"])
def test_an_adapter_of_a_base_with_the_same_tensors_is_taken(
    changed: str, base: Path, round_of: Round, tmp_path: Path
) -> None:
    arrays = disk.random_arrays(SHAPES, 0)
    if changed != "nothing":
        arrays["model.embed_tokens.weight"] = arrays["model.embed_tokens.weight"] + 1
    same = disk.write_model(tmp_path / "same", arrays)
    adapter = adapter_of(tmp_path / "adapter", same)
    assert write_contribution(adapter, base, round_of("signs"), tmp_path / "c").path.is_file()


def test_an_adapter_of_a_base_that_is_not_here_is_taken(
    base: Path, round_of: Round, tmp_path: Path
) -> None:
    adapter = adapter_of(tmp_path / "adapter", tmp_path / "gone")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_contribution(adapter, base, round_of("signs"), tmp_path / "c")


def test_an_adapter_of_another_known_model_is_warned_of(
    base: Path, round_of: Round, tmp_path: Path
) -> None:
    snapshot = tmp_path / "models--Qwen--Qwen3-0.6B" / "snapshots" / ("0" * 40)
    shutil.copytree(base, snapshot)
    arrays = disk.lora_arrays(SHAPES, 3, 2)
    adapter = disk.write_adapter(
        tmp_path / "adapter", arrays, 3, base_model_name_or_path="Qwen/Qwen3-0.6B-Base"
    )
    with pytest.warns(GymWarning, match="made for 'Qwen/Qwen3-0.6B-Base', and is used on"):
        write_contribution(adapter, snapshot, round_of("signs"), tmp_path / "c")


def test_a_private_round_refuses_an_adapter_of_another_base(
    base: Path, other: Path, round_of: Round, tmp_path: Path
) -> None:
    adapter = adapter_of(tmp_path / "adapter", other)
    privacy = privacy_for(1.0, 1e-6, 1.0, "0" * 64, "x25519:" + "0" * 64)
    with raises("rounds.other_adapter_base") as caught:
        write_values(adapter, base, round_of("lowrank"), privacy, tmp_path / "c")
    assert caught.value.code == "rounds.other_adapter_base"


def test_a_soup_combines_no_adapters_of_two_bases(
    base: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    soup = DeltaSoup(DeltaSoupConfig(method=AggregationMethod.MEAN))
    soup.contribute("ann", adapter_of(tmp_path / "a1", base, 1))
    with raises("rounds.other_adapter_base") as caught:
        soup.contribute("ben", adapter_of(tmp_path / "a2", other, 2))
    assert caught.value.code == "rounds.other_adapter_base"
