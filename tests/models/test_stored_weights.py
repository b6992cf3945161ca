"""Weights in codes are counted as the weights that they stand for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from zoo.models.folder import count_parameters
from zoo.models.stored_weights import stored_codes, stored_weights

Tensors = dict[str, NDArray[Any]]


def write(folder: Path, tensors: Tensors, config: dict[str, Any]) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def mlx_layer(name: str, outputs: int, inputs: int, bits: int, group: int) -> Tensors:
    scales = np.ones((outputs, inputs // group), np.float16)
    codes = np.ones((outputs, inputs * bits // 32), np.uint32)
    return {f"{name}.weight": codes, f"{name}.scales": scales, f"{name}.biases": scales}


def record(shape: object) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps({"shape": shape}).encode(), np.uint8)


def test_each_layer_of_mlx_lm_has_its_own_bits(tmp_path: Path) -> None:
    tensors = mlx_layer("a", 8, 128, 4, 64) | mlx_layer("b", 2, 64, 8, 32)
    told = {"group_size": 64, "bits": 4, "b": {"group_size": 32, "bits": 8}}
    folder = write(tmp_path / "m", tensors, {"quantization": told})
    found = stored_weights(folder, {"quantization": told})
    assert {name: one.shape for name, one in found.items()} == {
        "a.weight": (8, 128),
        "b.weight": (2, 64),
    }
    codes = stored_codes(folder, {"quantization": told})
    # 1,024 weights in 4 bits and 32 numbers, 128 in 8 bits and 8 numbers
    assert (codes.weights, codes.stored_bytes) == (1152, 512 + 64 + 128 + 16)


@pytest.mark.parametrize(
    ("told", "shape"), [([6, 4], (6, 4)), ([6, 5], (24,)), ("6x4", (24,)), ([-6, -4], (24,))]
)
def test_codes_of_bitsandbytes_have_the_shape_in_their_record_if_it_fits(
    tmp_path: Path, told: object, shape: tuple[int, ...]
) -> None:
    tensors: Tensors = {
        "a.weight": np.ones((12, 1), np.uint8),
        "a.weight.absmax": np.ones(1, np.float32),
        "a.weight.quant_state.bitsandbytes__nf4": record(told),
    }
    found = stored_weights(write(tmp_path / "m", tensors, {}), {})
    assert {name: one.shape for name, one in found.items()} == {"a.weight": shape}


def test_codes_of_8_bits_and_plain_weights_count_as_they_are(tmp_path: Path) -> None:
    tensors: Tensors = {
        "a.weight": np.ones((3, 4), np.int8),
        "a.SCB": np.ones(3, np.float32),
        "a.weight_format": np.zeros((), np.uint8),
        "norm.weight": np.ones(5, np.float32),
        "norm.biases": np.ones(5, np.float32),  # no codes beside it: a weight of its own
    }
    assert count_parameters(write(tmp_path / "m", tensors, {})) == 12 + 5 + 5


def test_words_without_known_bits_count_as_words(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", mlx_layer("a", 8, 128, 4, 64), {"quantization": {"bits": 99}})
    assert count_parameters(folder) == 8 * 16
