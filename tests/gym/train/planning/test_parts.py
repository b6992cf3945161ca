"""What the estimate of memory counts by name: whole modules, continued adapters, projections."""

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.backends.optimizer_memory import Matrix
from zoo.gym.config import TrainConfig
from zoo.gym.train.planning.parts import (
    Adapter,
    adapter_of,
    named_matrices,
    rotated_layers,
    whole_modules,
)
from zoo.models import pico_folder

# zen-pico: 4 blocks, 128 wide, 4 heads of 32, feed-forward 384, tied head of 264 words
TABLE = Matrix(264, 128, 1, linear=False)


def size(names: tuple[str, ...]) -> int:
    return sum(one.size for one in whole_modules(pico_folder(), names))


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("down_proj", "gate_proj", "up_proj"), 4 * 3 * 128 * 384),
        (("mlp", "down_proj"), 4 * 3 * 128 * 384),
        (("layers.1.mlp.up_proj",), 128 * 384),
        (("norm",), 128),
        (("proj",), 0),  # names match whole parts
    ],
)
def test_every_module_that_is_trained_whole_counts_whatever_its_name(
    names: tuple[str, ...], values: int
) -> None:
    assert size(names) == values


@pytest.mark.parametrize("names", [("embed_tokens",), ("lm_head",), ("embed_tokens", "lm_head")])
def test_a_tied_table_is_trained_once(names: tuple[str, ...]) -> None:
    assert whole_modules(pico_folder(), names) == (TABLE,)


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(model_name_or_path="zen-pico", dataset=("a",), **settings)


def test_a_continued_adapter_is_what_its_own_config_says(tmp_path: Path) -> None:
    lora = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"], "lora_dropout": 0.1}
    for told, found in (
        (lora, Adapter(8, dropout=True)),
        (
            lora | {"use_dora": True, "modules_to_save": ["norm"], "lora_dropout": 0.0},
            Adapter(8, dora=True, whole=("norm",)),
        ),
        ({"peft_type": "OFT", "r": 4, "oft_block_size": 32}, Adapter(4, oft=(0, 32))),
    ):
        (tmp_path / "adapter_config.json").write_text(json.dumps(told))
        assert adapter_of(config(adapter_name_or_path=str(tmp_path))) == found


def test_layers_that_are_rotated_by_name_are_those_that_match() -> None:
    oft: dict[str, Any] = {"finetuning_type": "oft", "oft_target": "down_proj,q_proj"}
    assert sorted(rotated_layers(config(**oft), pico_folder()) or ()) == [128] * 4 + [384] * 4
    assert rotated_layers(config(finetuning_type="oft"), pico_folder()) is None
    assert rotated_layers(config(), pico_folder()) is None


def named(**settings: Any) -> list[tuple[int, int]] | None:
    given = config(**settings)
    found = named_matrices(given, pico_folder(), 4)
    return None if found is None else sorted((one.rows, one.columns) for one in found)


def test_matrices_projected_by_name_are_those_that_are_trained_and_match() -> None:
    full: dict[str, Any] = {"finetuning_type": "full", "optim": "galore"}
    assert named(**full) is None
    assert named(**full, galore_target="q_proj,k_proj") == [(64, 128)] * 4 + [(128, 128)] * 4
    assert named(**full, galore_target="embed_tokens,k_norm") == [(264, 128)]
    freeze = full | {"finetuning_type": "freeze", "freeze_trainable_layers": 1}
    assert named(**freeze, galore_target="q_proj") == [(128, 128)]
    last = freeze | {"freeze_trainable_modules": "mlp"}
    assert named(**last, galore_target="q_proj,up_proj") == [(384, 128)]
