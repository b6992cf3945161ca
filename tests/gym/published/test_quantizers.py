"""The published quantizers of single tensors are the codecs of delta files, unpacked."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import zoo.gym
import zoo.gym.quantization
from tests.codes import raises
from zoo.gym import (
    BitDeltaConfig,
    BitDeltaQuantizer,
    DeltaQuantConfig,
    DeltaQuantizer,
    GymWarning,
    QuantMethod,
)
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.codecs.options import Dense, choose_coding
from zoo.gym.delta.codecs.tensor import decode_rows, encode_tensor
from zoo.gym.delta.codecs.values import Values

Matrix = NDArray[np.float32]

SIGNS: list[dict[str, Any]] = [
    {},
    {"scale": "group"},
    {"scale": "column"},
    {"scale": "matrix"},
    {"enable_deltasoup": True},
    {"zero": "mask"},
    {"planes": 3},
    {"planes": 2, "zero": "mask", "scale": "group"},
]
METHODS = [method for method in QuantMethod if method is not QuantMethod.DYNAMIC]


def pair(shape: tuple[int, ...], seed: int = 0) -> tuple[Matrix, Matrix]:
    """Returns a base and a fine-tune of which a tenth of the values did not change."""
    random = np.random.default_rng(seed)
    base = random.standard_normal(shape).astype(np.float32)
    change = 0.1 * random.standard_normal(shape) * (random.random(shape) > 0.1)
    return base, (base + change).astype(np.float32)


def in_a_file(base: Matrix, tuned: Matrix, config: DeltaConfig) -> Matrix:
    """Returns the change that a delta file has for a tensor."""
    coding = choose_coding(config, from_adapter=False)
    assert isinstance(coding, Dense)
    encoded = encode_tensor("w", Values(base, "f32", "b"), Values(tuned, "f32", "t"), coding)
    if encoded is None:
        return np.zeros_like(base)
    rows = base.size // base.shape[-1]
    decoded = decode_rows(encoded.tensor, encoded.arrays, slice(0, rows))
    return decoded.reshape(base.shape)


SHAPES = st.lists(st.integers(1, 140), min_size=2, max_size=3).filter(
    lambda sides: np.prod(sides) < 1 << 16
)


@pytest.mark.slow
@pytest.mark.parametrize("config", SIGNS)
@settings(deadline=None, max_examples=25)
@given(shape=SHAPES, seed=st.integers(0, 99))
def test_signs_times_scales_are_what_a_file_has(
    config: dict[str, Any], shape: list[int], seed: int
) -> None:
    base, tuned = pair(tuple(shape), seed)
    made = BitDeltaConfig(**config)
    quantizer = BitDeltaQuantizer(made)
    signs, scales = quantizer.quantize_delta(tuned, base, "w")
    assert set(np.unique(signs)) <= {-1, 0, 1}
    expected = in_a_file(base, tuned, made.as_delta(from_adapter=False))
    np.testing.assert_array_equal(quantizer.dequantize_delta(signs, scales), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=25)
@given(shape=SHAPES, seed=st.integers(0, 99))
def test_codes_times_scales_are_what_a_file_has(
    method: QuantMethod, shape: list[int], seed: int
) -> None:
    base, tuned = pair(tuple(shape), seed)
    config = DeltaQuantConfig(method=method)
    quantizer = DeltaQuantizer(config)
    codes, params = quantizer.quantize_delta(tuned, base, "w")
    assert (codes.dtype, codes.shape) == (np.int8, base.shape)
    expected = in_a_file(base, tuned, config.as_delta(from_adapter=False))
    np.testing.assert_array_equal(quantizer.dequantize_delta(codes, params), expected)


def test_a_scale_is_the_mean_change_of_its_row() -> None:
    base = np.zeros((2, 4), np.float32)
    tuned = np.array([[1, -2, 3, -2], [0.5, 0.5, 0.5, -0.5]], np.float32)
    signs, scales = BitDeltaQuantizer().quantize_delta(tuned, base)
    assert signs.tolist() == [[1, -1, 1, -1], [1, 1, 1, -1]]
    assert scales.tolist() == [2.0, 0.5]  # (1 + 2 + 3 + 2) / 4


def test_the_published_round_trip_of_torch() -> None:
    torch.manual_seed(0)
    base = torch.randn(1024, 1024)
    tuned = base + 0.1 * torch.randn(1024, 1024)
    quantizer = BitDeltaQuantizer(BitDeltaConfig(bits=1, group_size=128))
    signs, scales = quantizer.quantize_delta(weight=tuned, base_weight=base, name="layer.0.weight")
    assert (signs.dtype, scales.dtype) == (torch.int8, torch.float32)
    change = quantizer.dequantize_delta(signs, scales, name="layer.0.weight")
    assert torch.equal(change > 0, tuned > base)
    # of a normal distribution E|d - sign(d) mean|d|| is 0.48 of its deviation, 0.1
    assert (change - (tuned - base)).abs().mean() < 0.05
    for third in (tuned.shape, "layer.0.weight", [1024, 1024]):
        assert torch.equal(quantizer.dequantize_delta(signs, scales, third), change)
    both = ((1024, 1024), "w")
    for order in (both, both[::-1]):
        assert torch.equal(quantizer.dequantize_delta(signs, scales, *order), change)


def test_bfloat16_is_coded_as_it_is_stored() -> None:
    base, tuned = (torch.from_numpy(each).bfloat16() for each in pair((8, 130)))
    quantizer = DeltaQuantizer(DeltaQuantConfig(method=QuantMethod.INT8))
    codes, params = quantizer.quantize_delta(tuned, base, "w")
    change = quantizer.dequantize_delta(codes, params, base.shape)
    assert (change - (tuned.float() - base.float())).abs().max() <= params["scales"].max() / 2


def test_a_vector_is_a_row_and_no_change_is_zero() -> None:
    base, tuned = pair((9,))
    signs, scales = BitDeltaQuantizer().quantize_delta(tuned, base)
    assert (signs.shape, scales.shape) == ((9,), (1,))
    signs, scales = BitDeltaQuantizer().quantize_delta(base, base)
    assert not signs.any()
    assert scales.tolist() == [0.0]
    codes, params = DeltaQuantizer().quantize_delta(base, base)
    assert not DeltaQuantizer().dequantize_delta(codes, params).any()


def test_a_layer_has_bits_of_its_own() -> None:
    base, tuned = pair((4, 128))
    config = DeltaQuantConfig(layer_bits={"a": 1}, sensitive_layers=("*.down_proj",))
    quantizer = DeltaQuantizer(config)
    names = ("a.weight", "b.down_proj.weight", "other")
    params = [quantizer.quantize_delta(tuned, base, name)[1] for name in names]
    assert [each["bits"] for each in params] == [1, 8, 4]
    assert [each["scale"] for each in params] == ["row", "group", "group"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"weight": [1.0]}, "w: weight: expected a tensor of torch or an array of NumPy, got a value"),
    ({"weight": np.zeros((2, 2))}, "w: weight: expected float32, float16 or bfloat16, got float64"),
    (
        {"weight": np.zeros((2, 3), "f4")},
        "w: expected base_weight in shape [2, 3], got shape [2, 2]",
    ),
    ({"weight": np.full((2, 2), np.nan, "f4")}, "tensor 'w': "),
    ({"weight": np.zeros((0, 2), "f4"), "base_weight": np.zeros((0, 2), "f4")}, "w: expected val"),
]


@pytest.mark.parametrize("quantizer", [BitDeltaQuantizer(), DeltaQuantizer()])
@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_a_wrong_tensor_is_refused_by_name(
    arguments: dict[str, Any], message: str, quantizer: Any
) -> None:
    sides = {"base_weight": np.zeros((2, 2), np.float32), **arguments}
    with raises("published.bad_tensor") as caught:
        quantizer.quantize_delta(**sides, name="w")
    assert caught.value.message.startswith(message)


def test_codes_that_do_not_fit_are_refused() -> None:
    base, tuned = pair((4, 4))
    quantizer = BitDeltaQuantizer()
    signs, scales = quantizer.quantize_delta(tuned, base)
    with raises("published.bad_tensor", r"expected scales in shape \[4\], got shape \[3\]"):
        quantizer.dequantize_delta(signs, scales[:3])
    with raises("published.bad_tensor", r"w: expected codes for shape \[5, 4\]"):
        quantizer.dequantize_delta(signs, scales, (5, 4), "w")
    with raises("published.bad_tensor", r"original_shape: expected a list of sizes, got \"a\""):
        quantizer.dequantize_delta(signs, scales, "w", "a")
    with raises("published.bad_tensor", "expected 2 planes"):
        BitDeltaQuantizer(BitDeltaConfig(planes=2)).dequantize_delta(signs, scales)
    with raises("published.bad_argument", "params: expected what quantize_delta returned"):
        DeltaQuantizer().dequantize_delta(signs, {})


def test_settings_that_are_not_for_single_tensors_are_refused() -> None:
    with raises("published.bad_argument", "bits: expected 1 for signs, got 4") as caught:
        BitDeltaQuantizer(BitDeltaConfig(bits=4))
    assert caught.value.hint == "DeltaQuantizer(DeltaQuantConfig(method='int4'))"
    with raises("delta.bad_option", "form: expected 'dense'"):
        BitDeltaQuantizer(BitDeltaConfig(form="lowrank"))
    with raises("config.bad_coding", "symmetric: expected true for full weights"):
        DeltaQuantizer(DeltaQuantConfig(method=QuantMethod.INT2, symmetric=False))
    with pytest.warns(GymWarning, match="calibration_samples: without effect on single tensors"):
        DeltaQuantizer(DeltaQuantConfig(calibration_samples=256))
    with pytest.warns(GymWarning, match="safety_threshold: without effect on single tensors"):
        BitDeltaQuantizer(BitDeltaConfig(safety_threshold=0.6))


@pytest.mark.parametrize(
    "name",
    ["BitDeltaConfig", "BitDeltaQuantizer", "DeltaQuantConfig", "DeltaQuantizer", "QuantMethod"],
)
def test_both_modules_have_the_same_object(name: str) -> None:
    assert getattr(zoo.gym, name) is getattr(zoo.gym.quantization, name)
