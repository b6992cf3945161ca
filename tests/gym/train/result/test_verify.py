"""A written result is read back, and one that is another model fails the run."""

import weakref
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import zoo.backends.torch.policy as torch_policy
from tests.codes import raises
from tests.gym.tui.fakes import rows_file
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec, Policy
from zoo.backends.torch.files.load import load_model
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.jobs import create_run
from zoo.gym.train.result.verify import check_result
from zoo.gym.train.session import run_session

IDS = list(range(10, 40))


def trained(
    folder: Path, train: LoraSpec | Literal["full"], out: Path, change: float = 0.05
) -> Policy:
    """A policy whose weights moved, and its result."""
    policy = load_backend("cpu").load(folder, LoadSpec(train=train, dtype="f32"))
    random = np.random.default_rng(0)
    policy.load_trained(
        {n: v + change * random.standard_normal(v.shape, np.float32) for n, v in policy.trained()}
    )
    policy.save_result(out, base=str(folder))
    return policy


def settings(train: LoraSpec | Literal["full"], dtype: str = "f32") -> TrainConfig:
    kind = "full" if train == "full" else "lora"
    keys = {"model_name_or_path": "tiny", "dataset": "rows.jsonl", "finetuning_type": kind}
    return TrainConfig.model_validate(keys | {"dtype": dtype})


def weaken(file: Path, factor: float) -> None:
    tensors = load_file(file)
    save_file({name: value * factor for name, value in tensors.items()}, file, {"format": "pt"})


LORA = LoraSpec(rank=4, alpha=8.0)


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
def test_a_sound_result_takes_the_place_of_the_policy(
    train: LoraSpec | Literal["full"], tiny: Path, tmp_path: Path
) -> None:
    policy = trained(tiny, train, tmp_path / "out")
    expected = policy.logits(IDS)
    check_result(policy, tmp_path / "out", IDS, settings(train))
    np.testing.assert_allclose(policy.logits(IDS), expected, rtol=1e-4, atol=1e-4)
    assert not dict(policy.trained())


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
def test_a_result_of_other_values_fails_and_is_removed(
    train: LoraSpec | Literal["full"], tiny: Path, tmp_path: Path
) -> None:
    policy = trained(tiny, train, tmp_path / "out")
    name = "model" if train == "full" else "adapter_model"
    weaken(tmp_path / "out" / f"{name}.safetensors", 0.99)
    with raises("train.result_differs", "trained model: expected logits that differ by"):
        check_result(policy, tmp_path / "out", IDS, settings(train))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_result_that_cannot_be_opened_fails_the_run(tiny: Path, tmp_path: Path) -> None:
    policy = trained(tiny, LORA, tmp_path / "out")
    (tmp_path / "out" / "adapter_model.safetensors").write_bytes(b"torn")
    with raises("train.result_differs", r"differs from the trained model: .*adapter_model"):
        check_result(policy, tmp_path / "out", IDS, settings(LORA))


@pytest.mark.slow
def test_what_was_trained_is_freed_before_the_result_is_loaded(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both at once would need twice the memory of all weights."""
    policy = trained(tiny, "full", tmp_path / "out")
    assert isinstance(policy, torch_policy.TorchPolicy)
    weights = [weakref.ref(parameter) for parameter in policy.module.parameters()]
    alive: list[int] = []

    def load(*given: Any, **options: Any) -> Any:
        alive.append(sum(weight() is not None for weight in weights))
        return load_model(*given, **options)

    monkeypatch.setattr(torch_policy, "load_model", load)
    check_result(policy, tmp_path / "out", IDS, settings("full"))
    assert alive == [0]


@pytest.mark.slow
def test_losing_a_small_change_does_not_pass_as_rounding(tiny: Path, tmp_path: Path) -> None:
    """The change is below the tolerance of bf16, and above its noise."""
    policy = trained(tiny, LORA, tmp_path / "out", change=0.001)
    weaken(tmp_path / "out" / "adapter_model.safetensors", 0.0)
    with policy.reference() as base:
        change = np.linalg.norm(base.logits(IDS) - policy.logits(IDS))
    assert 0.005 < change / np.linalg.norm(policy.logits(IDS)) < 0.02
    with raises("train.result_differs"):
        check_result(policy, tmp_path / "out", IDS, settings(LORA, "bf16"))


@pytest.mark.slow
def test_a_run_whose_result_lost_the_training_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    rows, out = (str(rows_file(tmp_path)),), tmp_path / "out"
    config = TrainConfig(
        model_name_or_path="zen-pico", dataset=rows, max_steps=1, output_dir=str(out)
    )
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    save = torch_policy.TorchPolicy.save_result

    def lose(policy: torch_policy.TorchPolicy, folder: Path, *, base: str) -> None:
        save(policy, folder, base=base)
        weaken(folder / "adapter_model.safetensors", 0.5)

    monkeypatch.setattr(torch_policy.TorchPolicy, "save_result", lose)
    with raises("train.result_differs"):
        run_session(config, run, lambda: None)
    assert not run.result.exists()
    assert not list(out.iterdir())
