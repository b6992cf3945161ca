"""The tables of keys agree with each other and with the settings."""

from typing import Literal

import pytest
from pydantic import Field

from zoo.gym.config import TrainConfig
from zoo.gym.config.describe import describe_settings, is_switch
from zoo.gym.config.foreign import (
    ALIASES,
    MISSING,
    SWITCHES,
    VALUES_OF_SWITCHES,
    WITHOUT_EFFECT,
    refusal,
)
from zoo.gym.config.report import COMMON_NAMES, nearest, shown
from zoo.gym.config.stages import METHODS, all_fields
from zoo.gym.config.train import PLACES
from zoo.gym.config.values import is_chosen
from zoo.gym.train.methods.sft import Supervised

KEYS = set(all_fields())


def test_every_setting_has_a_description_of_one_line() -> None:
    for item in describe_settings():
        assert item.text
        assert "\n" not in item.text


def test_every_alias_means_a_setting() -> None:
    assert set(ALIASES.values()) <= KEYS
    assert set(COMMON_NAMES.values()) <= KEYS


def test_a_key_is_in_one_table_only() -> None:
    tables = [KEYS, set(ALIASES), set(WITHOUT_EFFECT), set(MISSING), set(COMMON_NAMES)]
    assert sum(len(table) for table in tables) == len(set().union(*tables))


def test_every_switch_of_other_trainers_is_known() -> None:
    assert set(WITHOUT_EFFECT) | set(VALUES_OF_SWITCHES) >= SWITCHES


def test_what_is_chosen_at_the_start_has_no_default() -> None:
    chosen = [field for field in TrainConfig.model_fields.values() if is_chosen(field)]
    assert {field.default for field in chosen} == {None}
    assert len(chosen) == 13


def test_settings_that_name_places_are_kept_out_of_what_is_shared() -> None:
    named = {key for key in KEYS if key.endswith(("_dir", "_path"))}
    named |= {"dataset", "eval_dataset", "teacher_model"}
    assert {key for key in named if not is_switch(key)} == PLACES


def test_only_settings_that_are_true_or_false_are_switches() -> None:
    switches = {key for key in KEYS if is_switch(key)}
    assert switches == {
        "double_quantization",
        "dynamic_sampling",
        "retention",
        "overwrite_output_dir",
        "mask_truncated_completions",
        "normalize_advantages",
        "whiten_rewards",
        "save_only_model",
        "use_bias_correction_kl",
        "use_dft_loss",
        "create_new_adapter",
        "pissa_init",
        "loftq_init",
        "use_dora",
        "use_rslora",
        "use_weighting",
        "gradient_checkpointing",
        "activation_offloading",
        "append_eos",
        "enable_liger_kernel",
        "offline",
        "packing",
        "split_special_tokens",
        "stream_layers",
    }


DESCRIBED = [
    ("learning_rate", "number", "above 0 to 1; chosen at the start"),
    (
        "finetuning_type",
        "lora | dora | oft | freeze | full",
        "default lora, but full for distill_delta",
    ),
    ("max_steps", "whole number", "1 or more; chosen at the start"),
    ("lora_dropout", "number", "0 to below 1; default 0"),
    ("dataset", "files", "must be given"),
    ("offline", "true | false", "default false"),
    ("max_grad_norm", "number", "above 0; default 1"),
]


@pytest.mark.parametrize(("key", "kind", "note"), DESCRIBED)
def test_a_setting_is_described_by_its_type_and_range(key: str, kind: str, note: str) -> None:
    found = next(item for item in describe_settings() if item.key == key)
    assert (found.kind, found.note) == (kind, note)


class OneConfig(TrainConfig, frozen=True):
    stage: Literal["one"] = "one"
    shared: int = Field(default=1, ge=1, le=9, description="a number")
    way: Literal["a", "b"] = Field(default="a", description="a way")


class TwoConfig(TrainConfig, frozen=True):
    stage: Literal["two"] = "two"
    shared: int = Field(default=2, ge=2, le=8, description="a number")
    way: Literal["b", "c"] = Field(default="b", description="a way")


class One(Supervised):
    config = OneConfig  # type: ignore[assignment] # other settings than those of its base


class Two(Supervised):
    config = TwoConfig  # type: ignore[assignment] # other settings than those of its base


def test_a_setting_that_differs_between_methods_is_described_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("One", "Two"):
        monkeypatch.setitem(METHODS, name.lower(), f"{__name__}:{name}")
    found = {item.key: item for item in describe_settings()}
    assert found["shared"].note == "1 to 9 for one, 2 to 8 for two; default 1 for one, 2 for two"
    assert (found["way"].kind, found["way"].note) == ("a | b | c", "default a for one, b for two")


@pytest.mark.parametrize(
    ("name", "known"),
    [("learning-rate", "learning_rate"), ("lr", "learning_rate"), ("qqq", None)],
)
def test_the_nearest_setting_is_found(name: str, known: str | None) -> None:
    assert nearest(name, KEYS) == known


def test_a_family_of_missing_keys_is_refused_by_name() -> None:
    assert refusal("ppo_target") == "no such setting of ppo: expected one of its own, such as beta"
    assert refusal("seed") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "nothing"), (True, "true"), (1, "1"), (1.0, "1"), ("a", '"a"'), ([], "an empty list")],
)
def test_a_value_is_quoted_by_its_kind(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_long_value_is_cut() -> None:
    assert len(shown("x" * 1000)) < 70
