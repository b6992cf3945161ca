"""Measured peaks of memory: under which circumstances one is found again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.gym.rewards.models.folders import write_reward_model
from tests.gym.train.planning.needs import LORA
from zoo.backends.memory import Adapted, MemoryNeed, estimate_memory
from zoo.backends.optimizer_memory import Matrix
from zoo.gym.config import TrainConfig
from zoo.gym.config.stages import load_method
from zoo.gym.doctor.capacity import WAYS
from zoo.gym.train.plan import make_plan
from zoo.gym.train.planning.footprints import (
    circumstances,
    footprint_key,
    known_peak,
    need_of,
    remember_peak,
)
from zoo.gym.train.planning.shape import need_for
from zoo.gym.train.rows import prepare_rows
from zoo.gym.train.session import facts_of
from zoo.models import pico_folder
from zoo.models.folder import count_parameters

GIVEN: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": "d"}


def test_a_measured_peak_is_found_by_the_same_need_alone(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "footprints.json"
    key = footprint_key(LORA, {"device": "cpu"})
    assert known_peak(file, key) is None
    remember_peak(file, key, 123)
    remember_peak(file, footprint_key(replace(LORA, tokens=7), {"device": "cpu"}), 456)
    remember_peak(file, footprint_key(LORA, {"device": "cuda"}), 789)
    assert known_peak(file, key) == 123


@pytest.mark.parametrize(
    "changed", ["device", "threads", "engine", "model", "revision", "dtype", "packing", "attention"]
)
def test_a_peak_holds_for_its_circumstances_alone(changed: str) -> None:
    from zoo.models import resolve

    config = TrainConfig(model_name_or_path="zen-pico", dataset=("a",))
    told = circumstances(config, resolve("zen-pico", offline=True), "cpu", 1, 9)
    assert changed in told
    assert footprint_key(LORA, told) != footprint_key(LORA, told | {changed: "another"})


def need(tmp_path: Path, **settings: Any) -> MemoryNeed:
    rows = tmp_path / "sums.jsonl"
    rows.write_text("".join(f'{{"prompt": "{n}+1=", "answer": {n + 1}}}\n' for n in range(30)))
    config = TrainConfig(model_name_or_path="zen-pico", dataset=rows, date="2026-01-01", **settings)
    return need_on(pico_folder(), config)


def need_on(folder: Path, config: TrainConfig) -> MemoryNeed:
    prepared = prepare_rows(config, folder)
    plan = make_plan(config, facts_of(config, folder, prepared))
    found = need_of(plan, folder, prepared)
    assert found is not None
    return found


def test_a_method_that_samples_needs_memory_for_its_answers(tmp_path: Path) -> None:
    given: dict[str, Any] = {"max_completion_length": 20, "group_size": 4}
    short = need(tmp_path, stage="grpo", gradient_accumulation_steps=1, **given)
    # 27 of 30 rows are learned, each with 4 answers
    assert (short.sampled_rows, short.other_parameters, short.evaluation_tokens) == (108, 0, 0)
    long = need(tmp_path, stage="grpo", **(given | {"max_completion_length": 70}))
    assert long.sampled_tokens == short.sampled_tokens + 50


@pytest.mark.slow
def test_codes_are_counted_where_they_are_made_and_where_they_are_stored(tmp_path: Path) -> None:
    four = 4 + (8 + 32 / 256) / 64  # with a scale in 8 bits for each 64 weights
    assert need(tmp_path, stage="grpo").linear_bits == 0
    assert need(tmp_path, stage="grpo", quantization_bit=4).linear_bits == four
    assert need(tmp_path, stage="grpo", quantization_bit=8).linear_bits == 8
    folder = in_codes(tmp_path / "base", "layers.0.mlp.up_proj")
    data = tmp_path / "sums.jsonl"
    given = TrainConfig(model_name_or_path=folder, dataset=data, stage="grpo", date="2026-01-01")
    found = need_on(folder, given)
    assert (found.coded, found.linear_bits) == (384 * 128, 4 + 2 * 16 / 64)


def in_codes(folder: Path, layer: str) -> Path:
    """zen-pico with a layer in 4 bits as mlx-lm writes it."""
    shutil.copytree(pico_folder(), folder)
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(f"{layer}.weight"))
    stem, (rows, columns) = name.removesuffix(".weight"), tensors[name].shape
    scales = torch.ones(rows, columns // 64, dtype=torch.bfloat16)
    tensors[name] = torch.zeros(rows, columns * 4 // 32, dtype=torch.uint32)
    tensors |= {f"{stem}.scales": scales, f"{stem}.biases": scales.clone()}
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    told = config | {"quantization": {"group_size": 64, "bits": 4}}
    (folder / "config.json").write_text(json.dumps(told))
    return folder


@pytest.mark.slow
def test_an_objective_of_the_vocabulary_needs_memory_for_it(tmp_path: Path) -> None:
    assert not need(tmp_path, stage="grpo").reads_vocabulary
    assert need(tmp_path, stage="grpo", entropy_coef=0.1).reads_vocabulary
    assert need(tmp_path, stage="ppo").reads_vocabulary  # values beside log-probabilities


@pytest.mark.slow
def test_full_training_with_a_divergence_needs_memory_for_the_frozen_base(tmp_path: Path) -> None:
    copy = need(tmp_path, stage="ppo", finetuning_type="full").other_parameters
    assert copy == count_parameters(pico_folder())
    assert need(tmp_path, stage="ppo", finetuning_type="full", beta=0).other_parameters == 0
    assert need(tmp_path, stage="ppo").other_parameters == 0  # the adapter is switched off


def test_a_reward_model_and_the_reference_of_each_step_need_memory(tmp_path: Path) -> None:
    write_reward_model(tmp_path / "scorer")
    found = need(tmp_path, stage="grpo", reward=str(tmp_path / "scorer")).other_parameters
    assert found == count_parameters(tmp_path / "scorer")
    assert load_method("tdpo").keeps_reference(TrainConfig(**GIVEN, stage="tdpo"))
    assert not load_method("dpo").keeps_reference(TrainConfig(**GIVEN, stage="dpo"))


def test_what_is_trained_by_name_and_dropped_needs_memory(tmp_path: Path) -> None:
    plain = need(tmp_path, stage="grpo")
    assert (plain.whole, plain.named, plain.dropout) == ((), None, False)
    given: dict[str, Any] = {"lora_dropout": 0.1, "additional_target": "down_proj"}
    found = need(tmp_path, stage="grpo", **given)
    assert found.dropout
    assert [(one.rows, one.columns) for one in found.whole] == [(128, 384)] * 4
    given = {"finetuning_type": "full", "optim": "galore", "galore_target": "q_proj"}
    named = need(tmp_path, stage="grpo", **given).named
    assert named is not None
    assert len(named) == 4


@pytest.mark.slow
def test_named_layers_and_stored_factors_are_counted_as_they_are(tmp_path: Path) -> None:
    assert need(tmp_path, stage="grpo").adapted is None
    some = need(tmp_path, stage="grpo", lora_target="q_proj,k_proj", lora_rank=8).adapted
    assert some is not None
    assert {(one.outputs, one.inputs, one.rank) for one in some} == {(128, 128, 8), (64, 128, 8)}
    assert len(some) == 2 * 4
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    factors = {
        "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight": torch.zeros(2, 128),
        "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight": torch.zeros(384, 2),
    }
    save_file(factors, adapter / "adapter_model.safetensors")
    told: dict[str, Any] = {"peft_type": "LORA", "r": 64, "target_modules": ["up_proj"]}
    told |= {"rank_pattern": {"up_proj": 2}}
    (adapter / "adapter_config.json").write_text(json.dumps(told))
    kept = need(tmp_path, stage="grpo", adapter_name_or_path=str(adapter)).adapted
    assert kept == (Adapted(384, 128, 2),)


@pytest.mark.slow
def test_named_modules_of_trained_layers_are_counted_alone(tmp_path: Path) -> None:
    given: dict[str, Any] = {"finetuning_type": "freeze", "freeze_trainable_layers": 1}
    assert need(tmp_path, stage="grpo", **given).in_place is None
    found = need(tmp_path, stage="grpo", freeze_trainable_modules="down_proj", **given).in_place
    assert found == (Matrix(128, 384, 1),)


def test_whole_matrices_of_attention_need_the_square_of_a_row(tmp_path: Path) -> None:
    assert need(tmp_path, stage="grpo").pairs == 0
    found = need(tmp_path, stage="grpo", flash_attn="disabled")
    assert found.pairs > found.tokens > 0


def test_a_damaged_table_of_peaks_knows_nothing_and_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "footprints.json"
    file.write_text("[not json")
    assert known_peak(file, "a") is None
    remember_peak(file, "a", 5)
    assert known_peak(file, "a") == 5


@pytest.mark.parametrize("method", WAYS)
def test_the_doctor_estimates_what_a_run_does(method: str, tmp_path: Path) -> None:
    rows, settings = tmp_path / "rows.txt", WAYS[method].settings
    rows.write_text("one\n\ntwo\n\nthree\n")
    given: dict[str, Any] = {**GIVEN, **settings, "dataset": rows, "date": "2026-01-01"}
    run = need_on(pico_folder(), TrainConfig(gradient_checkpointing=True, **given))
    of_run: dict[str, Any] = {"tokens": run.tokens, "evaluation_tokens": run.evaluation_tokens}
    doctors = replace(need_for(run.geometry, settings), **of_run)
    size = 4 if run.full else 2  # the number format is chosen after the need is known
    assert estimate_memory(doctors) == estimate_memory(replace(run, weight_bytes=size))
