"""Deltas of LoRA adapters: factors as peft scales and places them, or a refusal."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from tests.gym.delta.test_create import BASE, SHAPES, Q, differences, make
from zoo.gym.delta import load_delta
from zoo.gym.errors import InputError


def lora_change(factors: disk.Arrays, scale: float) -> dict[str, Any]:
    """B A times alpha/r for every layer, from peft's names, in float64."""
    change = {}
    for name in (name for name in factors if ".lora_A." in name):
        A, B = factors[name], factors[name.replace("lora_A", "lora_B")]
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        change[f"{module}.weight"] = scale * (B.astype(np.float64) @ A)
    return change


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"r": 4, "lora_alpha": 32}, 8.0),
        ({"r": 4, "lora_alpha": 32, "use_rslora": True}, 16.0),
        ({"r": 4, "lora_alpha": 1, "alpha_pattern": {"q_proj|.*": 2}}, 0.5),
        ({"r": 8, "lora_alpha": 4, "rank_pattern": {"layers.*": 4}}, 1.0),
    ],
)
def test_a_factor_is_scaled_as_peft_does(
    config: dict[str, Any], scale: float, base32: Path, tmp_path: Path
) -> None:
    factors = disk.lora_arrays(SHAPES, 4, 3)
    source = disk.write_adapter(tmp_path / "lora", factors, 4, **config)
    expected = lora_change(factors, scale)[Q]
    found = make(source, base32, tmp_path)[Q]
    # 2 bits keep a factor's direction: a wrong alpha would be off by 2 or more
    assert np.vdot(found, expected) / np.vdot(expected, expected) == pytest.approx(1, abs=0.25)


def test_an_adapter_file_with_its_config_beside_equals_its_folder(
    adapter: Path, base: Path, lowrank: Path, tmp_path: Path
) -> None:
    found = make(adapter / "adapter_model.safetensors", base, tmp_path)
    assert str(found) == str(differences(lowrank))


@pytest.mark.slow
def test_a_folder_of_a_model_and_an_adapter_is_neither_until_one_is_named(
    base: Path, adapter: Path, tuned: Path, lowrank: Path, tmp_path: Path
) -> None:
    both = Path(shutil.copytree(tuned, tmp_path / "both"))
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(adapter / name, both)
    with raises("delta.model_and_adapter"):
        make(both, base, tmp_path)
    assert str(make(both / "adapter_model.safetensors", base, tmp_path)) == str(
        differences(lowrank)
    )
    assert load_delta(tmp_path / "d.safetensors").header.form == "lowrank"
    make(both / "model.safetensors", base, tmp_path)
    assert load_delta(tmp_path / "d.safetensors").header.form == "dense"


def test_a_stray_adapter_config_makes_no_adapter_of_a_model(
    base: Path, adapter: Path, tuned: Path, tmp_path: Path
) -> None:
    stray = Path(shutil.copytree(tuned, tmp_path / "stray"))
    shutil.copy(adapter / "adapter_config.json", stray)
    make(stray, base, tmp_path)
    assert load_delta(tmp_path / "d.safetensors").header.form == "dense"


def test_an_adapter_that_learned_nothing_is_refused(base32: Path, tmp_path: Path) -> None:
    factors = disk.lora_arrays(SHAPES, 2, 3)
    zeros = {name: array * (".lora_A." in name) for name, array in factors.items()}
    source = disk.write_adapter(tmp_path / "lora", zeros, 2)
    with raises("delta.no_change"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"use_dora": True}, "use_dora: a low-rank delta cannot carry DoRA's magnitudes"),
        ({"fan_in_fan_out": True}, r"fan_in_fan_out: .* supported only for gpt2, openai-gpt"),
        ({"target_modules": None}, "target_modules: expected the adapted layers"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: .* whole modules"),
        ({"bias": "all"}, "bias: expected 'none', got 'all'"),
        ({"init_lora_weights": "pissa"}, "'pissa' changes the base"),
        ({"loftq_config": {"loftq_bits": 4}}, "cannot carry an adapter for a quantised base"),
        ({"peft_type": "IA3"}, "peft_type: expected 'LORA', got 'IA3'"),
        ({"r": 5}, "expected rank 5 by 'adapter_config.json', got 2"),
    ],
)
def test_an_adapter_that_a_delta_cannot_carry_is_refused(
    config: dict[str, Any], message: str, base32: Path, tmp_path: Path
) -> None:
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2, **config)
    with pytest.raises(InputError, match=message):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("base_model.model.lm_head.lora_{}.weight", "tied to the embedding"),
        ("base_model.model.model.embed_tokens.lora_embedding_{}", "linear layer, got an embedding"),
        ("base_model.model.model.layers.9.mlp.up_proj.lora_{}.weight", "has no such tensor"),
        ("base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight", r"shape \[20, 16\] as in"),
    ],
)
def test_factors_that_do_not_fit_the_base_are_refused(
    name: str, message: str, base32: Path, tmp_path: Path
) -> None:
    factors = {name.format("A"): np.ones((2, 16)), name.format("B"): np.ones((41, 2))}
    arrays = {key: value.astype(np.float32) for key, value in factors.items()}
    module = name.removeprefix("base_model.model.").partition(".lora_")[0]
    source = disk.write_adapter(tmp_path / "lora", arrays, 2, target_modules=[module])
    with pytest.raises(InputError, match=message):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj"]},
        {"layers_to_transform": [0]},
        {"exclude_modules": r".*\.mlp\..*"},
    ],
    ids=str,
)
def test_factors_that_the_config_leaves_out_are_refused(
    settings: dict[str, Any], base32: Path, tmp_path: Path
) -> None:
    """peft drops them: the delta would be another model than the adapter."""
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2, **settings)
    with pytest.raises(InputError, match=r"expected only tensors covered by adapter_config\.json"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize("gone", ["layers.1.mlp.up_proj", "v_proj"])
def test_factors_that_the_config_asks_for_are_not_left_out(
    gone: str, base32: Path, tmp_path: Path
) -> None:
    factors = {name: a for name, a in disk.lora_arrays(SHAPES, 2, 3).items() if gone not in name}
    source = disk.write_adapter(tmp_path / "lora", factors, 2)
    with pytest.raises(InputError, match=r"expected all tensors required by adapter_config\.json"):
        make(source, base32, tmp_path)


@pytest.mark.parametrize(
    "place", ["layers.2.mlp.", "layers.1.mlp.experts.0.", "vision.layers.0.mlp."]
)
def test_a_layer_that_the_loaded_model_has_under_no_such_name_is_no_gap(
    place: str, tmp_path: Path
) -> None:
    """Layers that predict further tokens, experts that are stacked, an image part."""
    more = {f"model.{place}up_proj.weight": np.ones((20, 16), np.float32)}
    base = disk.write_model(tmp_path / "base", {**BASE, **more})
    source = disk.write_adapter(tmp_path / "lora", disk.lora_arrays(SHAPES, 2, 3), 2)
    assert len(make(source, base, tmp_path)) == 14


def test_factors_of_two_ranks_have_their_own_code(base32: Path, tmp_path: Path) -> None:
    factors = disk.lora_arrays(SHAPES, 2, 3)
    first = min(factors)  # the A of a module: one more row than its B has columns
    factors[first] = np.ones((3, factors[first].shape[1]), np.float32)
    source = disk.write_adapter(tmp_path / "lora", factors, 2)
    with raises("delta.bad_factors", r"expected \[r, in\] and \[out, r\]") as refused:
        make(source, base32, tmp_path)
    assert refused.value.code == "delta.bad_factors"


def test_a_lone_factor_and_a_missing_config_are_refused(base32: Path, tmp_path: Path) -> None:
    factors = disk.lora_arrays(SHAPES, 2, 3)
    first = min(factors)
    lone = disk.write_adapter(tmp_path / "lone", {first: factors[first]}, 2)
    with raises("delta.incomplete_adapter", "expected lora_A and lora_B, got one"):
        make(lone, base32, tmp_path)
    file = disk.write_tensors(tmp_path / "bare.safetensors", factors)
    with raises(
        "delta.incomplete_adapter", r"'adapter_config.json' next to the LoRA factors, got none"
    ):
        make(file, base32, tmp_path)


def test_a_pickled_adapter_is_refused(adapter: Path, base32: Path, tmp_path: Path) -> None:
    source = tmp_path / "lora"
    source.mkdir()
    shutil.copy(adapter / "adapter_config.json", source)
    with raises("delta.incomplete_adapter", r"expected 'adapter_model.*got none"):
        make(source, base32, tmp_path)
    (source / "adapter_model.bin").write_bytes(b"pickle")
    with raises("delta.incomplete_adapter", r"expected 'adapter_model.*got only pickled weights"):
        make(source, base32, tmp_path)
