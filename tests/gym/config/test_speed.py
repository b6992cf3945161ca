"""Settings of speed and memory reach the engine, or are refused by name."""

import importlib.util
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig, load_config
from zoo.gym.errors import NotAvailableError
from zoo.gym.train.loading import load_spec
from zoo.gym.train.planning.faults import check_packages


def settings(*items: str) -> TrainConfig:
    return load_config([], ["model=m", "dataset=d.jsonl", *items], {}).config


@pytest.mark.parametrize(
    ("items", "field", "value"),
    [
        (["flash_attn=auto"], "attention", "auto"),
        (["flash_attn=sdpa"], "attention", "sdpa"),
        (["flash_attn=disabled"], "attention", "eager"),
        (["enable_liger_kernel=true"], "liger", True),
        (["use_unsloth_gc=true", "gradient_checkpointing=true"], "offload_activations", True),
    ],
)
def test_a_setting_of_speed_reaches_the_engine(items: list[str], field: str, value: object) -> None:
    assert getattr(load_spec(settings(*items)), field) == value


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["flash_attn=fa2"], "expected sdpa, which runs FlashAttention 2"),
        (
            ["activation_offloading=true", "gradient_checkpointing=false"],
            "expected true with activ",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(items: list[str], message: str) -> None:
    with raises("config.invalid", message):
        settings(*items)


def test_missing_kernels_are_named_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def found(name: str, *more: Any) -> Any:
        return None if name == "liger_kernel" else find(name, *more)

    monkeypatch.setattr("zoo.backends.libraries.liger.find_spec", found)
    with pytest.raises(NotAvailableError, match="needs the package liger-kernel"):
        check_packages(settings("enable_liger_kernel=true"))
