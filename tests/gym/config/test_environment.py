"""A setting in the environment is no setting, and does not pass silently."""

import pytest

from zoo.gym.config import load_config

GIVEN = {"model_name_or_path": "zen-pico", "dataset": ["a.jsonl"]}


def reported() -> dict[str, str]:
    loaded = load_config([], [], GIVEN)
    assert loaded.config.lora_rank == load_config([], ["lora_rank=16"], GIVEN).config.lora_rank
    return {idle.key: idle.reason for idle in loaded.ignored if idle.origin == "environment"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ZOO_GYM_LORA_RANK", ": expected lora_rank=VALUE"),
        ("ZOO_GYM_LORA_RNK", ": expected lora_rank=VALUE"),
        ("ZOO_GYM_QQQQ", ""),
    ],
)
def test_a_variable_that_looks_like_a_setting_is_reported(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "3")
    assert reported() == {name: "settings are not read from the environment" + said}


def test_the_variable_of_the_home_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", "/tmp/elsewhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert reported() == {}
