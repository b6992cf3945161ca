"""Products of tokens with sign bits, against NumPy in float64."""

from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.codes import raises
from zoo.core import available_isas, dense_product, sign_product
from zoo.core.errors import InputError

Method = Literal["exact", "int8"]
METHODS: tuple[Method, ...] = ("exact", "int8")
SHAPES = [(1, 1, 1), (1, 1, 9), (3, 70, 1), (2, 17, 31), (64, 5, 257), (1, 130, 2563)]
"""Tokens, rows and columns: single ones, odd ones, more than a block of 1,024."""
SHARED = (4, 820, 2563)
"""Enough that threads share the work."""


def given(
    tokens: int, rows: int, cols: int
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.float32]]:
    """Returns tokens, bits (the padding ones, too, at random) and scales."""
    random = np.random.default_rng(tokens + 10 * rows + 1000 * cols)
    x_TI = random.standard_normal((tokens, cols), np.float32)
    bits = random.integers(0, 256, (rows, -(-cols // 8)), np.uint8)
    return x_TI, bits, random.random(rows, np.float32) + np.float32(0.1)


def expected(
    x_TI: NDArray[np.float32], bits: NDArray[np.uint8], scales: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Returns the product in float64."""
    ones = np.unpackbits(bits, axis=1, count=x_TI.shape[1], bitorder="little")
    return x_TI.astype(np.float64) @ (2.0 * ones - 1).T * scales.astype(np.float64)


def error(got: NDArray[np.float32], want: NDArray[np.float64]) -> float:
    """Returns the norm of the difference, relative to what is wanted."""
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_product_is_within_a_millionth_of_float64(shape: tuple[int, int, int]) -> None:
    x_TI, bits, scales = given(*shape)
    assert error(sign_product(x_TI, bits, scales), expected(x_TI, bits, scales)) <= 1e-6


def test_the_exact_product_is_as_near_where_all_inputs_are_far_above_zero() -> None:
    x_TI, bits, scales = given(4, 50, 9728)
    x_TI += np.float32(100)
    assert error(sign_product(x_TI, bits, scales), expected(x_TI, bits, scales)) <= 1e-6


@pytest.mark.parametrize("cols", [64, 1000, 2560, 9728])
def test_the_int8_product_is_within_its_bound_of_float64(cols: int) -> None:
    x_TI, bits, scales = given(8, 200, cols)
    got = sign_product(x_TI, bits, scales, method="int8")
    assert error(got, expected(x_TI, bits, scales)) <= 1.5e-2


def test_an_outlier_spoils_no_other_block_of_the_int8_product() -> None:
    x_TI, bits, scales = given(1, 200, 4096)
    x_TI[0, 5] = 1e6
    got = sign_product(x_TI, bits, scales, method="int8")
    bits[:, 0] ^= 1 << 5  # with the outlier's sign turned, the sum of the two has only the rest
    got += sign_product(x_TI, bits, scales, method="int8")
    x_TI[0, :1024] = 0  # the outlier's own block is rounded to nothing
    assert error(got, 2 * expected(x_TI, bits, scales)) <= 5e-2


def test_int8_is_exact_where_the_inputs_are_whole_numbers_of_steps() -> None:
    x_TI, bits, scales = given(2, 33, 1500)
    x_TI[:] = np.random.default_rng(0).integers(-60, 61, x_TI.shape)
    x_TI[:, ::100] = 127  # so the step is 1; no other four passes 4 * 60 = 240
    x_TI[:, 1::100] = x_TI[:, 2::100] = x_TI[:, 3::100] = 0
    got = sign_product(x_TI, bits, scales, method="int8")
    assert np.array_equal(got, expected(x_TI, bits, scales).astype(np.float32))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [*SHAPES, SHARED])
def test_every_instruction_set_and_thread_count_gives_the_same_bytes(
    shape: tuple[int, int, int], method: Method
) -> None:
    x_TI, bits, scales = given(*shape)
    results = {
        sign_product(x_TI, bits, scales, method=method, isa=isa, threads=threads).tobytes()
        for isa in available_isas()
        for threads in (1, 2, 8)
    }
    assert len(results) == 1


@pytest.mark.parametrize("method", METHODS)
def test_zeros_give_zero(method: Method) -> None:
    x_TI, bits, scales = given(2, 20, 100)
    got = sign_product(x_TI * 0, bits, scales, method=method)
    assert not got.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_smallest_subnormal_counts(method: Method) -> None:
    x_TI = np.full((1, 3), 1e-45, np.float32)
    got = sign_product(x_TI, np.array([[0b111]], np.uint8), np.ones(1, np.float32), method=method)
    assert got[0, 0] == 3 * x_TI[0, 0]


def test_a_token_alone_gives_what_it_gives_among_others() -> None:
    x_TI, bits, scales = given(64, 100, 1100)
    for method in METHODS:
        together = sign_product(x_TI, bits, scales, method=method)
        alone = sign_product(x_TI[37:38], bits, scales, method=method)
        assert np.array_equal(together[37], alone[0])


def test_adding_rounds_once() -> None:
    # 1 + 2^-24 lies halfway between two float32; the 2^-40 more must decide.
    x_TI = np.array([[2**-24, 2**-40]], np.float32)
    out = np.array([[1]], np.float32)
    bits, scales = np.array([[0b11]], np.uint8), np.ones(1, np.float32)
    assert sign_product(x_TI, bits, scales, out=out, add=True) is out
    assert out[0, 0] == np.float32(1 + 2**-23)


def test_one_scale_serves_all_rows() -> None:
    x_TI, bits, _ = given(2, 70, 40)
    half = np.array([0.5], np.float32)
    assert np.array_equal(
        sign_product(x_TI, bits, half), sign_product(x_TI, bits, np.repeat(half, 70))
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_its_place(value: float) -> None:
    x_TI, bits, scales = given(3, 4, 50)
    x_TI[2, 41] = value
    out = np.zeros((3, 4), np.float32)
    with pytest.raises(InputError, match=r"x is not finite.* in row 2, column 41"):
        sign_product(x_TI, bits, scales, out=out)
    assert not out.any()


def test_a_scale_that_is_not_finite_is_refused_by_its_row() -> None:
    x_TI, bits, scales = given(1, 4, 50)
    scales[3] = np.nan
    with pytest.raises(InputError, match=r"scales is not finite.* in row 3"):
        sign_product(x_TI, bits, scales)


def test_a_token_whose_sum_leaves_float32_is_refused() -> None:
    x_TI, bits, scales = given(2, 4, 50)
    x_TI[1, :2] = 3e38
    with pytest.raises(InputError, match="x is too large in row 1"):
        sign_product(x_TI, bits, scales)


def test_scales_of_groups_are_refused_with_a_way_out() -> None:
    x_TI, bits, _ = given(1, 4, 256)
    with raises("core.wrong_shape", r"expected \(4,\) or \(1,\), got \(8,\)\nhint: .*unpack"):
        sign_product(x_TI, bits, np.ones(8, np.float32))


def test_an_output_that_shares_memory_with_the_tokens_is_refused() -> None:
    x_TI, bits, scales = given(1, 8, 8)
    with pytest.raises(ValueError, match="overlap"):
        sign_product(x_TI, bits, scales, out=x_TI)


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (7, 33), (1030, 2560)])
def test_the_dense_product_is_that_of_float64_in_the_same_bytes_everywhere(
    rows: int, cols: int, tokens: int
) -> None:
    random = np.random.default_rng(rows)
    wide_OI = random.standard_normal((rows, cols), np.float32)
    weights_OI = (wide_OI.view(np.uint32) >> 16).astype(np.uint16)
    x_TI = random.standard_normal((tokens, cols), np.float32)
    results = [
        dense_product(x_TI, weights_OI, isa=isa, threads=n)
        for isa in available_isas()
        for n in (1, 2, 8)
    ]
    assert len({result.tobytes() for result in results}) == 1
    bf16_OI = (weights_OI.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert np.allclose(results[0], x_TI @ bf16_OI.T, rtol=1e-5, atol=1e-4)
