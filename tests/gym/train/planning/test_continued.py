"""What an adapter that is trained further says of itself is part of the settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig, dump_config, load_config
from zoo.gym.train.loading import load_spec
from zoo.gym.train.planning.continued import with_adapter
from zoo.gym.train.planning.faults import check_engine
from zoo.gym.train.result.few_bits import codes_of
from zoo.models import pico_folder

LORA = {"peft_type": "LORA", "r": 32, "lora_alpha": 8, "target_modules": ["v_proj", "q_proj"]}
LOFTQ = LORA | {"loftq_config": {"loftq_bits": 4, "kind": "fp4", "double": False}}
DORA = LORA | {"use_dora": True}

Make = Callable[..., TrainConfig]


@pytest.fixture
def continued(tmp_path: Path) -> Make:
    """Makes settings with an adapter of a config."""

    def make(adapter: dict[str, Any], *items: str) -> TrainConfig:
        (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
        given = ["model=zen-pico", "dataset=d.jsonl", f"adapter_name_or_path={tmp_path}", *items]
        return load_config([], given, {}).config

    return make


def test_rank_scale_and_layers_are_those_of_the_adapter(continued: Make) -> None:
    found = with_adapter(continued(LORA | {"use_rslora": True, "lora_dropout": 0.1}))
    assert (found.lora_rank, found.lora_alpha, found.lora_dropout) == (32, 8.0, 0.1)
    assert (found.lora_target, found.use_rslora, found.dora) == ("q_proj,v_proj", True, False)
    assert with_adapter(continued(DORA)).dora


def test_the_codes_that_an_adapter_was_made_for_are_settings(continued: Make) -> None:
    found = with_adapter(continued(LOFTQ))
    assert codes_of(found) == "4 bits (FP4, by bitsandbytes)"
    spec = load_spec(found).quantization
    assert spec is not None
    assert (spec.bits, spec.kind, spec.double, spec.method) == (4, "fp4", False, "bnb")
    assert found.loftq_init


def test_a_base_in_few_bits_is_not_quantised_again(continued: Make, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"quantization_config": {"load_in_4bit": true}}')
    assert with_adapter(continued(LOFTQ), tmp_path).quantization_bit is None


def test_stored_settings_are_read_back_and_stay_as_they_are(
    continued: Make, tmp_path: Path
) -> None:
    found = with_adapter(continued(LOFTQ))
    (tmp_path / "config.yaml").write_text(dump_config(found))
    again = load_config([tmp_path / "config.yaml"], [], {}).config
    assert again == found
    assert with_adapter(again) == found


@pytest.mark.parametrize(
    ("adapter", "item", "message"),
    [
        (LORA, "lora_rank=4", "lora_rank=4: has no effect with adapter_name_or_path.*expected 32"),
        (
            LORA,
            "lora_rank=16",
            "lora_rank=16: has no effect with adapter_name_or_path.*expected 32",
        ),
        (LORA | {"lora_dropout": 0.1}, "lora_dropout=0", "lora_dropout=0.0: .*expected 0.1, as in"),
        (LORA | {"use_rslora": True}, "use_rslora=false", "use_rslora=false: .*expected true"),
        (LORA, "lora_target=k_proj", "lora_target=k_proj: has no effect with adapter_name_or_path"),
        (LORA, "use_dora=true", "use_dora=true: has no effect with adapter_name_or_path"),
        (DORA, "use_dora=false", "use_dora=false: has no effect with adapter_name_or_path"),
        (DORA, "quantization_bit=8", "use_dora=true of .*: reads the weights of the base"),
        (LOFTQ, "quantization_bit=8", "quantization_bit=8: has no effect with adapter.*expected 4"),
        (LOFTQ, "sharding=full", "quantization_bit=4 of .*: cannot be with sharding full"),
        (LOFTQ, "stage=rm", "quantization_bit=4 of .*: cannot be with stage rm"),
        (LOFTQ, "stream_layers=true", "quantization_bit=4 of .*: cannot be with stream_layers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_contradicts_the_adapter_is_refused_before_a_run(
    continued: Make, adapter: dict[str, Any], item: str, message: str
) -> None:
    with raises("train.adapter_settings", message):
        check_engine(continued(adapter, item))


def test_all_layers_may_be_given_if_the_adapter_is_on_all(continued: Make) -> None:
    named = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    on_all = continued(LORA | {"target_modules": named}, "lora_target=all")
    assert with_adapter(on_all, pico_folder()).lora_target == ",".join(sorted(named))
    with raises("train.adapter_settings", r"lora_target=all: has no effect .* q_proj,v_proj"):
        with_adapter(continued(LORA, "lora_target=all"), pico_folder())


def test_the_adapters_own_values_may_be_given(continued: Make) -> None:
    given = ("lora_rank=32", "lora_target=v_proj,q_proj", "quantization_bit=4")
    assert with_adapter(continued(LOFTQ, *given)).lora_rank == 32
