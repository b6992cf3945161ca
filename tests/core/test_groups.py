"""Codes in groups of 128, against a reference in NumPy that follows the documented definition."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from tests.core.test_codes import matrices
from zoo.core import (
    GroupCodec,
    add_product,
    apply_groups,
    available_isas,
    pack_groups,
    unpack_groups,
)
from zoo.core.errors import InputError

F32, F64 = np.float32, np.float64
CODECS: tuple[GroupCodec, ...] = get_args(GroupCodec)
RADIX = {"sign": (8, 2), "ternary": (5, 3), "int2": (4, 4), "int4": (2, 16), "int8": (1, 256)}
MIDDLE = {"sign": 0.5, "ternary": 1.0, "int2": 1.5, "int4": 8.0, "int8": 128.0}


def lane_sum(sizes: NDArray[np.float32]) -> float:
    lanes = np.zeros(32, F32)
    for start in range(0, len(sizes), 32):
        part = sizes[start : start + 32]
        lanes[: len(part)] += part
    total = 0.0
    for lane in lanes:
        total += float(lane)
    return total


def scale_reference(codec: str, d: NDArray[np.float32]) -> np.float16:
    sizes, count = np.abs(d), len(d)
    if codec == "sign":
        return np.float16(F32(lane_sum(sizes) / count))
    if codec == "ternary":
        threshold, scale = F32(0.75 * (lane_sum(sizes) / count)), 0.0
        for _ in range(3):
            above = sizes > threshold
            total = lane_sum(np.where(above, sizes, F32(0)))
            scale = total / int(above.sum()) if above.any() else 0.0
            threshold = F32(scale / 2)
        return np.float16(F32(scale))
    if codec == "int2":
        everything, step = lane_sum(sizes), F32(1.25 * lane_sum(sizes) / count)
        for _ in range(3):
            above = sizes > step
            high = lane_sum(np.where(above, sizes, F32(0)))
            step = F32((0.5 * everything + high) / (0.25 * count + 2.0 * int(above.sum())))
        return np.float16(step)
    steps = F32(7 if codec == "int4" else 127)
    found = np.float16(sizes.max() / steps)
    return np.nextafter(found, np.float16(np.inf)) if steps * F32(found) < sizes.max() else found


def digits_reference(codec: str, d: NDArray[np.float32], scale: np.float32) -> NDArray[Any]:
    if codec == "sign":
        return d > 0
    if codec == "ternary":
        return np.where(d > scale / 2, 2, np.where(d < -scale / 2, 0, 1))
    if codec == "int2":
        return np.where(d > scale, 3, np.where(d > 0, 2, np.where(d >= -scale, 1, 0)))
    nearest: NDArray[Any] = np.rint(d / (scale or F32(1))) + MIDDLE[codec]
    return nearest


def reference(codec: str, values: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[np.float16]]:
    (rows, cols), (per_byte, radix) = values.shape, RADIX[codec]
    digits = np.zeros((rows, -(-cols // per_byte) * per_byte), np.int64)
    scales = np.zeros((rows, -(-cols // 128)), np.float16)
    for row, index in np.ndindex(scales.shape):
        part = slice(index * 128, min(cols, index * 128 + 128))
        scales[row, index] = scale_reference(codec, values[row, part])
        digits[row, part] = digits_reference(codec, values[row, part], F32(scales[row, index]))
    weights = radix ** np.arange(per_byte)
    codes = (digits.reshape(rows, -1, per_byte) @ weights).astype(np.uint8)
    return codes, scales


def values_reference(
    codec: str, codes: NDArray[np.uint8], scales: NDArray[np.float16], cols: int
) -> NDArray[np.float32]:
    per_byte, radix = RADIX[codec]
    digits = (codes[:, :, None] // radix ** np.arange(per_byte) % radix).reshape(len(codes), -1)
    steps = digits[:, :cols].astype(F32) - F32(MIDDLE[codec])
    wide = np.repeat(scales.astype(F32), 128, axis=1)[:, :cols]
    found: NDArray[np.float32] = steps * (wide * 2 if codec == "sign" else wide)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@given(values=matrices())
def test_packing_equals_the_reference_bit_for_bit(
    codec: GroupCodec, values: NDArray[np.float32]
) -> None:
    for isa in available_isas():
        codes, scales = pack_groups(codec, values, isa=isa)
        expected = reference(codec, values)
        assert codes.tobytes() == expected[0].tobytes(), isa
        assert scales.tobytes() == expected[1].tobytes(), isa


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@given(values=matrices())
def test_applying_rounds_the_sum_once(codec: GroupCodec, values: NDArray[np.float32]) -> None:
    codes, scales = pack_groups(codec, values)
    change = values_reference(codec, codes, scales, values.shape[1])
    for isa in available_isas():
        weights = np.full(values.shape, 0.7, np.float16)
        apply_groups(codec, weights, codes, scales, dtype="f16", isa=isa)
        with np.errstate(over="ignore"):
            expected = (F32(np.float16(0.7)) + change).astype(np.float16)
        assert weights.tobytes() == expected.tobytes(), isa


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_number_of_threads_changes_nothing(codec: GroupCodec, threads: int) -> None:
    values = np.random.default_rng(0).standard_normal((700, 300), F32)
    codes, scales = pack_groups(codec, values, threads=threads)
    weights = np.ones_like(values)
    apply_groups(codec, weights, codes, scales, threads=threads)
    assert codes.tobytes() == pack_groups(codec, values)[0].tobytes()
    assert weights.tobytes() == (1 + unpack_groups(codec, codes, scales, cols=300)).tobytes()


@pytest.mark.parametrize("codec", ["ternary", "int2"])
def test_the_fitted_scale_is_no_worse_than_its_start(codec: GroupCodec) -> None:
    values = np.random.default_rng(1).laplace(size=(50, 128)).astype(F32)
    codes, scales = pack_groups(codec, values)
    fitted = ((unpack_groups(codec, codes, scales, cols=128) - values) ** 2).sum()
    start = (np.abs(values).mean(1) * (1.5 if codec == "ternary" else 1.25)).astype(np.float16)
    first = values_reference(codec, codes, start[:, None], 128)
    assert fitted < ((first - values) ** 2).sum()


@pytest.mark.parametrize("codec", CODECS)
def test_bfloat16_pairs_are_subtracted_in_float32(codec: GroupCodec) -> None:
    random = np.random.default_rng(2)
    base, tuned = (random.integers(0x3F00, 0x3FFF, (3, 200), np.uint16) for _ in range(2))
    wide = [(side.astype(np.uint32) << 16).view(F32) for side in (base, tuned)]
    got = pack_groups(codec, tuned, base=base, dtype="bf16", base_dtype="bf16")
    expected = pack_groups(codec, wide[1] - wide[0])
    assert [array.tobytes() for array in got] == [array.tobytes() for array in expected]


def test_a_value_too_large_for_a_scale_is_named_with_its_place() -> None:
    values = np.zeros((2, 200), F32)
    values[1, 150] = 1e9
    message = (
        "values in row 1, columns 128 to 199 are too large: "
        "expected a scale of at most 65504 (float16), got more"
    )
    with pytest.raises(InputError) as caught:
        pack_groups("int8", values)
    assert caught.value.message == message


def test_a_value_that_is_not_finite_is_named_with_its_side() -> None:
    base, tuned = np.zeros((2, 200), F32), np.zeros((2, 200), F32)
    base[1, 7] = np.inf
    with pytest.raises(InputError, match=r"base is not finite: .* got inf in row 1, column 7"):
        pack_groups("int4", tuned, base=base)


def test_a_byte_without_five_digits_is_refused_and_nothing_changed() -> None:
    weights = np.ones((1, 7), F32)
    codes = np.array([[121, 243]], np.uint8)
    with pytest.raises(InputError, match="expected bytes of at most 242, got 243 in row 0, byte 1"):
        apply_groups("ternary", weights, codes, np.ones((1, 1), np.float16))
    assert (weights == 1).all()


def test_shapes_and_codecs_that_do_not_exist_are_refused() -> None:
    codes, scales = pack_groups("int4", np.ones((2, 200), F32))
    with raises("core.wrong_shape", "codes has the wrong shape"):
        unpack_groups("int8", codes, scales, cols=200)
    with raises("core.wrong_shape", "scales has the wrong shape"):
        unpack_groups("int4", codes, scales[:, :1].copy(), cols=200)
    with pytest.raises(ValueError, match=r"expected one of 'sign', .*, got 'int3'"):
        pack_groups("int3", np.ones((2, 2), F32))  # type: ignore[arg-type]


@pytest.mark.slow
@given(values=matrices(), rank=st.integers(1, 5), rows=st.integers(1, 40))
def test_the_product_is_summed_in_order(values: NDArray[np.float32], rank: int, rows: int) -> None:
    A = np.resize(values, (rank, values.shape[1]))
    B = np.random.default_rng(rows).standard_normal((rank, rows), F32)
    expected = np.zeros((rows, A.shape[1]), F64)
    for k in range(rank):
        expected += B[k].astype(F64)[:, None] * A[k].astype(F64)
    for isa in available_isas():
        total = np.full(expected.shape, 0.25, F32)
        add_product(A, B, total, isa=isa)
        assert total.tobytes() == (F32(0.25) + expected.astype(F32)).tobytes(), isa
