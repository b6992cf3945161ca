"""Which layers an adapter is for: as peft chooses them, without peft, and without running away."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig
from peft.tuners.tuners_utils import check_target_module_exists
from peft.utils.other import get_pattern_key

from tests.codes import raises
from zoo.core.errors import InputError
from zoo.models import patterns
from zoo.models.adapters import LORA_SETTINGS, pattern_values, read_adapter_config, targeted

MODULES = [
    *(
        f"model.layers.{layer}.{module}"
        for layer in (0, 1, 11)
        for module in ("self_attn.q_proj", "mlp.up_proj", "mlp.experts.1.up_proj")
    ),
    "model.vision.blocks.1.q_proj",
    "q_proj",
    "lm_head",
]
TARGETS: list[Any] = [
    ["q_proj"],
    ["q_proj", "up_proj", "model.layers.1.mlp.up_proj"],
    ["layers.1.mlp.up_proj"],
    r".*\.(q|up)_proj",
    r"(?!.*vision).*layers\.1{1,2}\..*",
    "lm_head",
]
NARROWED: list[dict[str, Any]] = [
    {},
    {"exclude_modules": ["up_proj", "lm_head"]},
    {"exclude_modules": r".*experts.*"},
    {"modules_to_save": ["mlp"]},
    {"layers_to_transform": 1},
    {"layers_to_transform": [1, 11], "layers_pattern": "layers"},
    {"layers_to_transform": [1], "layers_pattern": ["blocks", "layers"]},
    {"layers_to_transform": []},
]


@pytest.mark.parametrize(
    ("target", "narrowed"),
    [*itertools.product(TARGETS, NARROWED)],
    ids=lambda value: str(value)[:40],
)
def test_layers_are_chosen_as_peft_chooses_them(target: Any, narrowed: dict[str, Any]) -> None:
    if isinstance(target, str) and "layers_to_transform" in narrowed:
        pytest.skip("peft refuses it")
    theirs = LoraConfig(target_modules=target, **narrowed)
    expected = {module for module in MODULES if check_target_module_exists(theirs, module)}
    assert targeted({"target_modules": target, **narrowed}, MODULES, "config") == expected


@pytest.mark.parametrize(
    "keys", [["q_proj"], [r"layers\.1\..*", "up_proj"], ["up_proj", "mlp.up_proj"], ["^lm_head"]]
)
def test_a_pattern_gives_each_module_the_value_that_peft_gives_it(keys: list[str]) -> None:
    values = {key: place for place, key in enumerate(keys)}
    expected = {m: values.get(get_pattern_key(keys, m), 8) for m in MODULES}
    assert pattern_values(values, MODULES, 8, "config") == expected


def write(folder: Path, **settings: object) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({"peft_type": "LORA", "target_modules": ["q_proj"], **settings}))
    return path


def test_the_settings_of_lora_are_those_of_peft() -> None:
    assert {field.name for field in dataclasses.fields(LoraConfig)} == LORA_SETTINGS


def test_a_setting_that_peft_does_not_know_is_refused_where_it_says_something(
    tmp_path: Path,
) -> None:
    read_adapter_config(write(tmp_path, use_later_idea=False, later_config=None))
    with raises(
        "models.bad_adapter_config", "use_later_idea: unknown setting of a LoRA adapter: True"
    ):
        read_adapter_config(write(tmp_path, use_later_idea=True))


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": 5},
        {"target_modules": [5]},
        {"exclude_modules": {"a": 1}},
        {"layers_to_transform": ["1"]},
        {"rank_pattern": ["q_proj"]},
        {"alpha_pattern": {"q_proj": "8"}},
        {"peft_type": None},
        {"target_modules": ".*", "layers_to_transform": [1]},
    ],
    ids=str,
)
def test_a_setting_of_a_wrong_type_is_refused_by_name(
    settings: dict[str, object], tmp_path: Path
) -> None:
    with raises("models.bad_adapter_config", f"{list(settings)[-1]}: expected"):
        read_adapter_config(write(tmp_path, **settings))


@pytest.mark.slow
def test_an_expression_that_runs_away_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LIMIT_S", 0.3)
    with pytest.raises(InputError, match=r"config: '\(\[a-z\.\]\+\)\+!': expected an expression"):
        targeted({"target_modules": "([a-z.]+)+!"}, ["a" * 60], "config")


def test_what_is_no_expression_is_refused() -> None:
    with raises("models.bad_adapter_config", r"expected a regular expression, got '\(q'"):
        targeted({"target_modules": "(q"}, MODULES, "config")


def test_an_endless_expression_is_not_even_read() -> None:
    with raises("models.pattern_too_long", "at most 4000 characters, got 5000"):
        targeted({"target_modules": "q" * 5000}, MODULES, "config")
