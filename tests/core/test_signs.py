"""Signs and scales, against a reference in NumPy that follows DESIGN's definition step by step."""

import functools
import operator
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from zoo.core import DType, apply_signs, pack_signs, unpack_signs
from zoo.core.errors import InputError

WIDTHS = [1, 7, 8, 9, 31, 33, 100, 4095, 4096, 4097, 9001]
DTYPES: list[DType] = ["f32", "f16", "bf16"]


def widen(array: NDArray[Any], dtype: DType) -> NDArray[np.float32]:
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def narrow(array: NDArray[np.floating], dtype: DType) -> NDArray[Any]:
    """Rounds to nearest, ties to even; bfloat16 by hand, as NumPy has none."""
    if dtype == "bf16":
        bits = array.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return array.astype(np.float16 if dtype == "f16" else np.float32)


def add_in_order(values: NDArray[np.float64]) -> float:
    """Python's own `sum` compensates its rounding errors from 3.12 on."""
    return functools.reduce(operator.add, map(float, values))


def row_sum(difference: NDArray[np.float32]) -> float:
    sums: list[float] = []
    for start in range(0, len(difference), 4096):
        block = np.abs(difference[start : start + 4096])
        lanes = np.zeros(32, np.float32)
        for at in range(0, len(block), 32):
            part = block[at : at + 32]
            lanes[: len(part)] += part
        sums.append(add_in_order(lanes.astype(np.float64)))
    return add_in_order(np.array(sums))


def reference(
    base: NDArray[np.float32], tuned: NDArray[np.float32], scale: str
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    difference = tuned - base
    bits = np.packbits(difference > 0, axis=1, bitorder="little")
    sums = [row_sum(row) for row in difference]
    if scale == "row":
        return bits, np.array([s / base.shape[1] for s in sums], np.float64).astype(np.float32)
    return bits, np.array([add_in_order(np.array(sums)) / base.size]).astype(np.float32)


@st.composite
def matrices(draw: st.DrawFn, dtype: DType) -> NDArray[np.float32]:
    """Values that the type holds exactly; among them zeros of both signs and subnormal numbers."""
    shape = (draw(st.integers(1, 4)), draw(st.sampled_from(WIDTHS)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = random.standard_normal(shape) * 10.0 ** draw(st.integers(-9, 3))
    special = np.array([0.0, -0.0, 1e-45, -1e-45, 6e-8, 1e-39, 65504.0], np.float32)
    where = random.random(shape) < draw(st.sampled_from([0.0, 0.1, 0.9]))
    values = np.where(where, random.choice(special, shape), values).astype(np.float32)
    return widen(narrow(values, dtype), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("base_dtype", DTYPES)
@pytest.mark.parametrize("tuned_dtype", DTYPES)
@pytest.mark.parametrize("scale", ["row", "matrix"])
@given(data=st.data())
def test_packing_equals_the_reference_bit_for_bit(
    data: st.DataObject, base_dtype: DType, tuned_dtype: DType, scale: Literal["row", "matrix"]
) -> None:
    tuned = data.draw(matrices(tuned_dtype))
    base = data.draw(
        st.sampled_from([np.roll(tuned, 1), tuned * np.float32(0.99), np.zeros_like(tuned)])
    )
    base = widen(narrow(np.clip(base, -65504, 65504), base_dtype), base_dtype)
    bits, scales = pack_signs(
        narrow(base, base_dtype),
        narrow(tuned, tuned_dtype),
        scale=scale,
        base_dtype=base_dtype,
        tuned_dtype=tuned_dtype,
    )
    expected_bits, expected_scales = reference(base, tuned, scale)
    np.testing.assert_array_equal(bits, expected_bits)
    np.testing.assert_array_equal(scales.view(np.uint32), expected_scales.view(np.uint32))


@given(tuned=matrices("f32"))
def test_unpacking_gives_back_the_sign_of_every_difference(tuned: NDArray[np.float32]) -> None:
    bits, _ = pack_signs(np.zeros_like(tuned), tuned)
    signs = unpack_signs(bits, tuned.shape[1])
    np.testing.assert_array_equal(signs, np.where(tuned > 0, 1.0, -1.0).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", ["row", "matrix"])
@given(data=st.data())
def test_applying_equals_the_reference_bit_for_bit(
    data: st.DataObject, dtype: DType, scale: Literal["row", "matrix"]
) -> None:
    weights = data.draw(matrices(dtype))
    bits, scales = pack_signs(np.zeros_like(weights), np.roll(weights, 3), scale=scale)
    # Half of float16's largest number at most, so that no sum overflows.
    scales = np.minimum(scales, np.float32(30000.0))
    weights = np.clip(weights, -30000.0, 30000.0)
    stored = narrow(weights, dtype)
    before = widen(stored, dtype)
    apply_signs(stored, bits, scales, dtype=dtype)
    expected = narrow(before + unpack_signs(bits, weights.shape[1]) * scales[:, None], dtype)
    np.testing.assert_array_equal(stored.view(np.uint8), expected.view(np.uint8))


def test_applying_twice_to_the_same_base_gives_the_same_bytes() -> None:
    random = np.random.default_rng(0)
    base, tuned = random.standard_normal((2, 5, 77), np.float32)
    bits, scales = pack_signs(base, tuned)
    first, second = base.copy(), base.copy()
    apply_signs(first, bits, scales)
    apply_signs(second, bits, scales)
    assert first.tobytes() == second.tobytes() != base.tobytes()


def test_zeros_of_either_sign_count_as_minus() -> None:
    base = np.zeros((1, 4), np.float32)
    tuned = np.array([[0.0, -0.0, 1e-45, -1e-45]], np.float32)
    assert pack_signs(base, tuned)[0].tolist() == [[0b0100]]


def test_the_scale_of_a_row_is_its_mean_absolute_difference() -> None:
    base = np.ones((2, 4), np.float32)
    tuned = np.array([[2, 0, 1, 1], [5, 1, 1, 1]], np.float32)
    # |d| = 1 1 0 0 and 4 0 0 0: means 0.5 and 1, 0.75 over both.
    assert pack_signs(base, tuned)[1].tolist() == [0.5, 1.0]
    assert pack_signs(base, tuned, scale="matrix")[1].tolist() == [0.75]


THREADS_SCRIPT = """
import hashlib, sys, numpy as np
from zoo.core import apply_signs, pack_codes2, pack_signs, use_threads
use_threads(int(sys.argv[1]))
base, tuned = np.random.default_rng(1).standard_normal((2, 300, 5001), np.float32)
bits, scales = pack_signs(base, tuned, scale="matrix")
apply_signs(base, bits, scales)
out = [bits, scales, base, *pack_codes2(tuned)]
print(hashlib.sha256(b"".join(a.tobytes() for a in out)).hexdigest())
"""


@pytest.mark.slow
def test_the_number_of_threads_makes_no_difference() -> None:
    def digest(threads: int) -> str:
        command = [sys.executable, "-c", THREADS_SCRIPT, str(threads)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert digest(1) == digest(5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["base", "tuned"])
def test_a_value_that_is_not_finite_is_named_with_its_place(side: str, value: float) -> None:
    base, tuned = np.zeros((2, 3, 5000), np.float32)
    {"base": base, "tuned": tuned}[side][2, 4500] = value
    shown = {"nan": "NaN"}.get(str(value), str(value))
    message = f"{side} is not finite: expected a finite number, got {shown} in row 2, column 4500"
    with pytest.raises(InputError) as caught:
        pack_signs(base, tuned)
    assert caught.value.message == message


def test_shapes_that_disagree_are_refused() -> None:
    base = np.zeros((2, 9), np.float32)
    with raises("core.wrong_shape", r"tuned has the wrong shape: expected \(2, 9\)"):
        pack_signs(base, np.zeros((9, 2), np.float32))
    bits, scales = pack_signs(base, base)
    with raises("core.wrong_shape", "bits has the wrong shape"):
        apply_signs(base, bits[:, :1].copy(), scales)
    with raises("core.wrong_shape", r"scales has the wrong shape: expected \(2,\) or \(1,\)"):
        apply_signs(base, bits, np.zeros(3, np.float32))
    with raises("core.wrong_shape", "bits has the wrong shape"):
        unpack_signs(bits, 17)
    with raises("core.wrong_shape", "expected 2 dimensions"):
        pack_signs(base[0], base[0])


def test_a_matrix_without_values_is_refused() -> None:
    with pytest.raises(InputError, match="base is empty"):
        pack_signs(np.zeros((3, 0), np.float32), np.zeros((3, 0), np.float32))


def test_arrays_of_another_type_are_refused() -> None:
    base = np.zeros((2, 9), np.float64)
    with pytest.raises(TypeError, match="base has the wrong type: expected float32, got float64"):
        pack_signs(base, base, base_dtype="f32")
    with pytest.raises(TypeError, match="expected float32, float16 or bfloat16, got float64"):
        pack_signs(base, base)
    with pytest.raises(TypeError, match="expected uint16, got float16"):
        pack_signs(base.astype(np.float16), base, base_dtype="bf16")
    with pytest.raises(TypeError, match="base is not an array"):
        pack_signs([[1.0]], base)
    with pytest.raises(TypeError, match="got >f4"):
        pack_signs(base.astype(">f4"), base, base_dtype="f32")


def test_memory_that_cannot_be_lent_is_refused() -> None:
    base = np.zeros((4, 8), np.float32)
    bits, scales = pack_signs(base, base)
    with pytest.raises(ValueError, match="base cannot be borrowed"):
        pack_signs(base.T, base)
    odd = np.zeros(4 * 32 + 1, np.uint8)[1:].view(np.float32).reshape(4, 8)
    with pytest.raises(ValueError, match="got unaligned memory"):
        apply_signs(odd, bits, scales)
    base.flags.writeable = False
    with pytest.raises(ValueError, match="weights cannot be written"):
        apply_signs(base, bits, scales)


def test_scales_inside_the_weights_are_refused() -> None:
    weights = np.zeros((4, 8), np.float32)
    with pytest.raises(ValueError, match="buffers overlap"):
        apply_signs(weights, np.zeros((4, 1), np.uint8), weights.reshape(-1)[:4])


def test_unknown_options_are_refused() -> None:
    base = np.zeros((2, 2), np.float32)
    with pytest.raises(
        ValueError, match=r"unknown scale: expected 'row', .* or 'group', got 'diagonal'"
    ):
        pack_signs(base, base, scale="diagonal")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="unknown dtype of base"):
        pack_signs(base, base, base_dtype="f64")  # type: ignore[call-overload]


def test_a_float16_sum_beyond_its_range_becomes_infinite() -> None:
    weights = np.full((1, 1), 65504, np.float16)
    apply_signs(weights, np.ones((1, 1), np.uint8), np.full(1, 100, np.float32), dtype="f16")
    assert np.isposinf(weights[0, 0])
