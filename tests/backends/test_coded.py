"""Adapters whose factors are in few bits while they are trained; `test_kinds` has the contract."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.backends.families import write_family
from tests.backends.policies import LORA, SIGNS, moved
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.backends.mlx.settings import refused_settings


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_saved_factor_has_as_many_values_as_its_codes(
    tied: Path, tmp_path: Path, bits: Any
) -> None:
    spec = LoadSpec(train=replace(LORA, delta_bits=bits), dtype="f32")
    policy: Any = moved(load_backend("cpu").load(tied, spec))
    policy.save_result(tmp_path, base=str(tied))
    saved = load_file(tmp_path / "adapter_model.safetensors")
    trained = {f"base_model.model.{name}": value for name, value in policy.trained()}
    assert saved.keys() == trained.keys()
    for name, values in trained.items():
        if "lora_A" in name:
            assert len(np.unique(saved[name][0])) <= 2**bits < len(np.unique(values[0]))


@pytest.mark.parametrize(
    "more", [{"dora": True}, {"init": "pissa"}, {"whole": ("norm",)}, {"delta_bits": 3}]
)
def test_only_a_plain_adapter_is_coded(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="delta_bits: expected 1, 2, 4 or 8, with a plain LoRA"):
        replace(SIGNS, **more)


def test_a_coded_adapter_is_not_divided() -> None:
    with pytest.raises(ValueError, match="sharded"):
        LoadSpec(train=SIGNS, sharded=True)


def test_mlx_refuses_it_by_name() -> None:
    assert refused_settings(LoadSpec(train=SIGNS)) == ["delta_bits: not available on MLX: got 1"]


@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize("targets", [("embed_tokens", "q_proj"), ("embed_tokens",)])
def test_factors_that_a_delta_codes_otherwise_are_refused(
    tied: Path, targets: tuple[str, ...]
) -> None:
    spec = LoadSpec(train=replace(SIGNS, targets=targets), dtype="f32")
    with raises("backends.not_linear", "delta_bits: expected an adapter of linear layers alone"):
        load_backend("cpu").load(tied, spec)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
def test_stacked_experts_are_refused(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "experts", "mixtral")
    with raises("backends.not_linear", "delta_bits: expected an adapter of linear layers alone"):
        load_backend("cpu").load(folder, LoadSpec(train=SIGNS, dtype="f32"))
