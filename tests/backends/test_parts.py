"""Families whose parts have names, caps or frozen weights of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from tests.breadth import families
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, LoraSpec

Build = Callable[[str], Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def make(name: str) -> Path:
        families.build(name, tmp_path / name)
        return tmp_path / name

    return make


def load(folder: Path, **options: Any) -> Any:
    return load_backend("cpu").load(folder, LoadSpec(**options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recurrent_gemma", "inkling_text", "xlstm"])
def test_logits_are_capped_and_scaled_as_the_model_does(name: str, build: Build) -> None:
    module = load(build(name)).module
    ids_BT = torch.arange(8, 20)[None]
    with torch.no_grad():
        theirs_TV = module.model(input_ids=ids_BT, use_cache=False).logits[0]
        ours_TV = module.head().logits(module.hidden(ids_BT)[0])
    assert torch.allclose(ours_TV, theirs_TV, atol=1e-5)


@pytest.mark.slow
def test_full_training_leaves_frozen_what_the_model_keeps_frozen(build: Build) -> None:
    assert "model.z_L_init" not in load(build("hrm_text"), train="full").parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mamba", "laguna"])
def test_all_linear_is_what_plain_peft_opens_again(name: str, build: Build, tmp_path: Path) -> None:
    base = build(name)
    load(base, train=LoraSpec(rank=2)).save_result(tmp_path / "lora", base="tiny")
    loaded = load(base, adapter=tmp_path / "lora")
    with safe_open(tmp_path / "lora" / "adapter_model.safetensors", "np") as file:
        stored = len(list(file.keys()))
    assert stored == sum("lora_" in name for name, _ in loaded.module.model.named_parameters()) > 0


@pytest.mark.slow
def test_a_model_that_passes_no_gradient_on_is_refused_before_the_run(build: Build) -> None:
    with raises("torch.no_gradient"):
        load(build("reformer"), train=LoraSpec(rank=2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*not part of this model")
def test_a_text_part_that_could_not_be_opened_is_not_trained_in_full(build: Build) -> None:
    with raises("torch.cannot_be_saved", "mllama_text_model"):
        load(build("mllama"), train="full")


@pytest.mark.slow
def test_a_tensor_of_a_text_part_is_found_under_the_loaded_models_name(build: Build) -> None:
    names = load_backend("cpu").parameter_names(build("qwen3_5"))
    assert names["model.language_model.norm.weight"] == "model.norm.weight"
    assert not any(".visual." in name for name in names)


def test_stacked_experts_are_no_parameters_of_one_tensor(build: Build) -> None:
    names = load_backend("cpu").parameter_names(build("mixtral"))
    assert "lm_head.weight" in names
    assert not any(".experts." in name for name in names)


def test_a_stack_has_the_matrices_of_its_experts_in_order(build: Build) -> None:
    parts = load_backend("cpu").parameter_parts(build("mixtral"))
    stored = "model.layers.1.block_sparse_moe.experts"
    gate_up, down = (
        parts[f"model.layers.1.mlp.experts.{name}"] for name in ("gate_up_proj", "down_proj")
    )
    assert gate_up == tuple(
        (f"{stored}.{e}.w1.weight", f"{stored}.{e}.w3.weight") for e in range(4)
    )
    assert down == tuple((f"{stored}.{e}.w2.weight",) for e in range(4))
