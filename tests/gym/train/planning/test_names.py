"""Names that the base does not have are refused from its files, before a run has a folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from zoo.gym.config import TrainConfig, load_config
from zoo.gym.engine import open_engine
from zoo.gym.errors import InputError
from zoo.gym.jobs import run_folders
from zoo.gym.published.api import train_here
from zoo.gym.train.loading import load_spec
from zoo.gym.train.planning.names import check_names
from zoo.models import pico_folder

FREEZE, OFT = "finetuning_type=freeze", "finetuning_type=oft"
FULL = "finetuning_type=full"

REFUSED = [
    ("lora_target=q_prj", "lora_target: expected names that layers end with, got 'q_prj'"),
    ("lora_target=q_proj,mlp", "lora_target: expected names that layers end with, got 'mlp'"),
    (f"{OFT} oft_target=c_attn", "oft_target: expected names that layers end with, got 'c_attn'"),
    ("additional_target=wte", "additional_target: expected names that modules end with, got 'wte'"),
    (f"{FREEZE} freeze_trainable_layers=99", "expected at most the model's 4 layers, got 99"),
    (f"{FREEZE} freeze_trainable_layers=-99", "expected at most the model's 4 layers, got -99"),
    (f"{FREEZE} freeze_trainable_modules=mlq", "expected modules that these layers have, got 'mlq"),
    (f"{FREEZE} freeze_extra_modules=wte", "expected modules that these layers have, got 'wte'"),
    (f"{FULL} optim=galore galore_target=mlq", "expected modules with trained matrices, got"),
    (
        f"{FREEZE} optim=apollo apollo_target=lm_head",
        "expected modules with trained matrices, got",
    ),
    (f"{OFT} oft_block_size=7", "oft_block_size: expected a divisor of the 384 inputs of"),
]

TAKEN = [
    "lora_target=q_proj,mlp.down_proj,lm_head",
    "additional_target=lm_head,norm",
    f"{OFT} oft_target=v_proj oft_block_size=16",
    f"{FREEZE} freeze_trainable_modules=mlp,self_attn freeze_extra_modules=embed_tokens",
    f"{FREEZE} freeze_trainable_layers=-1 freeze_trainable_modules=q_proj",
    f"{FULL} optim=galore galore_target=mlp",
]


def load(words: str) -> TrainConfig:
    return load_config([], ["model=zen-pico", "dataset=d.jsonl", *words.split()], {}).config


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_the_base_does_not_have_is_refused_from_its_files(words: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_names(load(words), pico_folder())
    assert message in caught.value.message


@pytest.mark.parametrize("words", TAKEN)
def test_what_it_has_is_taken(words: str) -> None:
    check_names(load(words), pico_folder())


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words, _ in REFUSED] + TAKEN)
def test_the_engine_refuses_the_same_in_the_same_words(words: str) -> None:
    config, folder = load(words), pico_folder()
    found = open_engine("cpu").faults(folder, load_spec(config))
    if words in TAKEN:
        assert not found
    elif "block_size" not in words and not words.endswith("mlp"):  # seen when it is loaded
        with pytest.raises(InputError) as caught:
            check_names(config, folder)
        assert caught.value.message == found[0].message


def test_no_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path))
    rows: Any = [{"prompt": "a", "completion": "b"}] * 4
    wrong = TrainConfig(model_name_or_path="zen-pico", dataset=rows, lora_target="q_prj")
    with pytest.raises(InputError, match="lora_target: expected names") as caught:
        train_here(wrong)
    assert caught.value.hint is not None
    assert "layers that end with down_proj, gate_proj, k_proj" in caught.value.hint
    assert run_folders() == []


@pytest.mark.parametrize(
    ("module", "shape", "message"),
    [
        ("model.layers.0.self_attn.q_proj", (128, 128), ""),
        ("model.layers.0.self_attn.q_proj", (256, 128), "expected factors of a layer of 128 x 128"),
        ("transformer.h.0.attn.c_attn", (128, 128), "expected layers of the base, got 'transform"),
    ],
)
def test_an_adapter_for_another_model_is_not_trained_further(
    tmp_path: Path, module: str, shape: tuple[int, int], message: str
) -> None:
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    factors = {"lora_A": (2, shape[1]), "lora_B": (shape[0], 2)}
    tensors = {
        f"base_model.model.{module}.{name}.weight": np.zeros(size, np.float32)
        for name, size in factors.items()
    }
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    config = load(f"adapter_name_or_path={tmp_path}")
    if not message:
        check_names(config, pico_folder())
        return
    with pytest.raises(InputError, match=message):
        check_names(config, pico_folder())


def test_a_model_with_experts_is_left_to_the_engine(tmp_path: Path) -> None:
    shutil.copytree(pico_folder(), tmp_path / "model")
    names = {"model.layers.0.mlp.experts.0.up_proj.weight": np.zeros((2, 2), np.float32)}
    save_file(names, tmp_path / "model" / "model.safetensors")
    check_names(load("lora_target=anything"), tmp_path / "model")
