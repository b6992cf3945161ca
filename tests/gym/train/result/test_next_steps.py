"""What is proposed after a run: nothing that its result would be refused for."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.codes import raises
from zoo.gym.delta.create import refuse_other_positions
from zoo.gym.delta.reading.adapter import read_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError
from zoo.gym.train.result.next_steps import NO_DELTA, can_be_delta
from zoo.models import pico_folder

LORA = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}

REFUSED: list[dict[str, Any]] = [
    {"peft_type": "OFT", "oft_block_size": 2},
    {**LORA, "use_dora": True},
    {**LORA, "modules_to_save": ["norm"]},
    {**LORA, "loftq_config": {"loftq_bits": 4}},
]


@pytest.mark.parametrize("config", REFUSED, ids=str)
def test_no_delta_is_proposed_of_an_adapter_that_has_none(
    config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    assert not can_be_delta(tmp_path)
    with raises("delta.adapter_not_supported", "a low-rank delta cannot carry"):
        read_adapter(tmp_path, open_weights(pico_folder()))


@pytest.mark.parametrize(("given", "proposed"), [("yarn", False), (None, True)])
def test_no_delta_is_proposed_of_a_model_with_scaled_positions(
    given: str | None, proposed: bool, tmp_path: Path
) -> None:
    config = json.loads((pico_folder() / "config.json").read_text())
    rope = {"rope_theta": 10_000.0, "rope_type": given or "default", "factor": 2.0}
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "config.json").write_text(json.dumps(config | {"rope_parameters": rope}))
    settings = {"settings": {"finetuning_type": "full", "rope_scaling": given}}
    (tmp_path / "env.json").write_text(json.dumps(settings))
    assert can_be_delta(tmp_path / "result") is proposed
    refuses = pytest.raises(InputError, match="expected positions as in the base, unscaled, got")
    with nullcontext() if proposed else refuses:
        refuse_other_positions(tmp_path / "result", pico_folder())


def test_a_delta_is_proposed_of_plain_lora_and_of_whole_models(tmp_path: Path) -> None:
    assert can_be_delta(tmp_path)
    config = {"peft_type": "LORA", **dict.fromkeys(NO_DELTA)}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    assert can_be_delta(tmp_path)
