"""Two-bit codes, against a reference in NumPy that follows the documented definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from zoo.core import pack_codes2, unpack_codes2
from zoo.core.errors import InputError

F32 = np.float32
Packed = tuple[NDArray[np.uint8], NDArray[np.float16], NDArray[np.uint8]]


def group_reference(values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], np.float16, int]:
    low, high = min(F32(0), values.min()), max(F32(0), values.max())
    spread = high - low
    if spread == 0:
        return np.zeros(len(values), np.uint8), np.float16(0), 0
    scale = np.float16(spread / F32(3))
    if F32(3) * F32(scale) < spread:
        scale = np.nextafter(scale, np.float16(np.inf))
    zero = min(F32(192), np.rint(-low / F32(scale) * F32(64)))
    codes = np.clip(np.rint(values / F32(scale) + zero / F32(64)), 0, 3)
    return codes.astype(np.uint8), scale, int(zero)


def reference(values: NDArray[np.float32], group: int) -> Packed:
    rows, cols = values.shape
    codes = np.zeros((rows, -(-cols // 4) * 4), np.uint8)
    scales = np.zeros((rows, -(-cols // group)), np.float16)
    zeros = np.zeros(scales.shape, np.uint8)
    for row, index in np.ndindex(scales.shape):
        part = slice(index * group, min(cols, (index + 1) * group))
        found = group_reference(values[row, part])
        codes[row, part], scales[row, index], zeros[row, index] = found
    places = np.array([1, 4, 16, 64], np.uint8)
    return (codes.reshape(rows, -1, 4) * places).sum(-1, dtype=np.uint8), scales, zeros


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[np.float32]:
    """Magnitudes from below float16's smallest number to near its largest."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 300)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = random.standard_normal(shape) * 10.0 ** draw(st.integers(-9, 4))
    values += draw(st.sampled_from([0.0, 0.1, -3.0]))
    special = np.array([0.0, -0.0, 1e-45, -1e-9, 3e-8, 0.5], np.float32)
    where = random.random(shape) < draw(st.sampled_from([0.0, 0.1, 1.0]))
    return np.where(where, random.choice(special, shape), values).astype(np.float32)


@pytest.mark.slow
@given(values=matrices(), group=st.sampled_from([1, 2, 5, 64, 128, 1000]))
def test_packing_equals_the_reference_bit_for_bit(values: NDArray[np.float32], group: int) -> None:
    got, expected = pack_codes2(values, group=group), reference(values, group)
    assert [array.shape for array in got] == [array.shape for array in expected]
    assert [array.dtype for array in got] == [array.dtype for array in expected]
    assert [array.tobytes() for array in got] == [array.tobytes() for array in expected]


@pytest.mark.slow
@given(values=matrices(), group=st.sampled_from([1, 5, 128]))
def test_unpacking_equals_the_formula_bit_for_bit(values: NDArray[np.float32], group: int) -> None:
    codes, scales, zeros = pack_codes2(values, group=group)
    cols = values.shape[1]
    back = unpack_codes2(codes, scales, zeros, cols=cols, group=group)
    single = (codes[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(values), -1)
    wide_zeros = np.repeat(zeros.astype(F32) / F32(64), group, 1)[:, :cols]
    wide_scales = np.repeat(scales.astype(F32), group, 1)[:, :cols]
    expected = (single[:, :cols].astype(F32) - wide_zeros) * wide_scales
    assert back.tobytes() == expected.tobytes()


@pytest.mark.slow
@given(values=matrices())
def test_no_value_is_more_than_half_a_step_off(values: NDArray[np.float32]) -> None:
    codes, scales, zeros = pack_codes2(values)
    back = unpack_codes2(codes, scales, zeros, cols=values.shape[1])
    steps = np.repeat(scales.astype(F32), 128, 1)[:, : values.shape[1]]
    # Beside half a step, what float32 rounds: a few parts in 2^24 of a group's three steps.
    assert (np.abs(values - back) <= steps * F32(0.500001)).all()


def test_codes_that_fit_exactly_come_back_exactly() -> None:
    values = np.array([[-0.5, 0.0, 0.5, 1.0, 0.0]], np.float32)
    codes, scales, zeros = pack_codes2(values)
    # Step (1 - -0.5) / 3 = 0.5; zero lies on code 1; codes 0 1 2 3, then 1 in a second byte.
    assert (codes.tolist(), scales.tolist(), zeros.tolist()) == ([[0b11100100, 1]], [[0.5]], [[64]])
    np.testing.assert_array_equal(unpack_codes2(codes, scales, zeros, cols=5), values)


def test_a_group_of_zeros_comes_back_as_zeros() -> None:
    values = np.array([[1.0, 2.0, 0.0, -0.0]], np.float32)
    codes, scales, zeros = pack_codes2(values, group=2)
    assert unpack_codes2(codes, scales, zeros, cols=4, group=2)[0, 2:].tobytes() == bytes(8)


def test_the_payload_is_a_quarter_byte_a_value_and_three_bytes_a_group() -> None:
    packed = pack_codes2(np.ones((16, 300), np.float32))
    assert [array.nbytes for array in packed] == [16 * 75, 16 * 3 * 2, 16 * 3]


def test_values_too_far_apart_for_float16_are_refused() -> None:
    values = np.zeros((2, 200), np.float32)
    values[1, 150] = 3e5
    message = (
        "values in row 1, columns 128 to 199 have too large a range: "
        "expected a step of at most 65504 between two codes (float16), got 100000"
    )
    with pytest.raises(InputError) as caught:
        pack_codes2(values)
    assert caught.value.message == message


def test_a_value_that_is_not_finite_is_named_with_its_place() -> None:
    values = np.zeros((3, 200), np.float32)
    values[1, 150] = np.nan
    with pytest.raises(InputError, match="got NaN in row 1, column 150"):
        pack_codes2(values)


def test_a_scale_that_is_not_finite_is_refused() -> None:
    codes, scales, zeros = pack_codes2(np.ones((2, 200), np.float32))
    scales[1, 1] = np.inf
    with pytest.raises(InputError, match=r"scale is not finite: .* got inf in row 1, column 1"):
        unpack_codes2(codes, scales, zeros, cols=200)


def test_shapes_that_disagree_are_refused() -> None:
    codes, scales, zeros = pack_codes2(np.ones((2, 200), np.float32))
    with raises("core.wrong_shape", "codes has the wrong shape"):
        unpack_codes2(codes, scales, zeros, cols=201)
    with raises("core.wrong_shape", "scales has the wrong shape"):
        unpack_codes2(codes, scales, zeros, cols=200, group=64)
    with raises("core.wrong_shape", "zeros has the wrong shape"):
        unpack_codes2(codes, scales, zeros[:1], cols=200)


def test_misuse_is_refused() -> None:
    with pytest.raises(TypeError, match="expected float32, got float64"):
        pack_codes2(np.ones((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="group is too small: expected at least 1, got 0"):
        pack_codes2(np.ones((2, 2), np.float32), group=0)
    with pytest.raises(InputError, match="values is empty"):
        pack_codes2(np.ones((2, 0), np.float32))
