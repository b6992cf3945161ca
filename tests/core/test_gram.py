"""Gram matrices and the rules on them: bit for bit those of the definitions, on every path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from tests.core import gram_reference as reference
from zoo.core import (
    available_isas,
    bulyan_order,
    exact_products,
    float_gram,
    hamming,
    krum_order,
    lowrank_gram,
    mix_gram,
    near_median,
    nearest,
    sign_gram,
    weighted_mean,
    whole_gram,
)
from zoo.core.errors import InputError


def random_rows(seed: int, n: int, cols: int) -> NDArray[np.float32]:
    """Values of many sizes, some of them copies of another row."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, cols)).astype(np.float32)
    rows *= np.float32(2) ** rng.integers(-12, 3, (n, 1))
    rows[n // 2] = rows[0]
    return rows


PATHS = [(isa, threads) for isa in available_isas() for threads in (1, 2)]


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 5, 9]),
    cols=st.sampled_from([1, 9, 1024, 2100]),
)
def test_products_of_floats_equal_the_reference_on_every_path(seed: int, n: int, cols: int) -> None:
    rows = random_rows(seed, n, cols)
    expected = reference.float_gram(rows)
    for isa, threads in PATHS:
        assert exact_products(float_gram(rows, isa=isa, threads=threads)) == expected
    shards = np.zeros((n, n, 2), np.uint64)
    for start in reversed(range(0, cols, 1024)):
        float_gram(np.ascontiguousarray(rows[:, start : start + 1024]), into=shards)
    assert exact_products(shards) == expected


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.sampled_from([3, 7, 12, 40]))
def test_the_rules_equal_the_reference_on_every_path(seed: int, n: int) -> None:
    exact = float_gram(random_rows(seed, n, 20))
    gram = whole_gram(exact)
    plain = reference.whole(exact_products(exact))
    assert gram.tolist() == plain
    f = (n - 3) // 4
    lines = reference.nearest(plain, n - f)
    mixed = reference.mix(plain, lines)
    for isa, threads in PATHS:
        chosen = nearest(gram, n - f, threads=threads)
        assert chosen.tolist() == lines
        again = mix_gram(gram, chosen, isa=isa, threads=threads)
        assert again.tolist() == mixed
        order = krum_order(again, f, threads=threads)
        assert order.tolist() == reference.krum_order(mixed, n - f - 2)
        assert bulyan_order(gram, f, threads=threads).tolist() == reference.bulyan_order(plain, f)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.sampled_from([1, 2, 7, 40]))
def test_means_equal_the_reference_on_every_path(seed: int, n: int) -> None:
    rows = random_rows(seed, n, 300)
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 9, n).astype(np.float32)
    weights[0] = 1
    keep = int(rng.integers(1, n + 1))
    for isa, threads in PATHS:
        mean = weighted_mean(rows, weights, isa=isa, threads=threads)
        assert mean.tobytes() == reference.weighted_mean(rows, weights).tobytes()
        near = near_median(rows, keep, isa=isa, threads=threads)
        assert near.tolist() == reference.near_median(rows, keep).tolist()


@given(seed=st.integers(0, 2**32))
def test_products_of_signs_are_those_of_sign_times_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, (6, 5), np.uint8)
    scales = rng.uniform(0, 2, 6).astype(np.float32)
    scales[1] = 0
    gram = sign_gram(hamming(bits, 37), 37, scales)
    signs = np.unpackbits(bits, axis=1, count=37, bitorder="little").astype(int) * 2 - 1
    agree = (signs @ signs.T).tolist()
    wide = scales.astype(np.float64).tolist()
    expected = [
        [round(wide[i] * wide[j] * agree[i][j] * 2**80) for j in range(6)] for i in range(6)
    ]
    assert exact_products(gram) == expected


@given(seed=st.integers(0, 2**32))
def test_products_of_factors_agree_with_those_of_the_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = (1, 3, 2, 3)
    a = [rng.standard_normal((rank, 13)).astype(np.float32) for rank in ranks]
    b = [rng.standard_normal((rank, 1030)).astype(np.float32) for rank in ranks]
    flat = np.stack([(y.astype(float).T @ x).reshape(-1) for x, y in zip(a, b, strict=True)])
    gram = np.array(exact_products(lowrank_gram(a, b)), float) * 2.0**-80
    np.testing.assert_allclose(gram, flat @ flat.T, atol=1e-12 * float(np.abs(gram).max()))
    assert np.array_equal(lowrank_gram(a, b, threads=1), lowrank_gram(a, b, threads=2))


@given(seed=st.integers(0, 2**32))
def test_the_order_of_contributors_permutes_a_gram_matrix(seed: int) -> None:
    rows = random_rows(seed, 7, 60)
    order = np.random.default_rng(seed).permutation(7)
    gram = whole_gram(float_gram(rows))
    again = whole_gram(float_gram(np.ascontiguousarray(rows[order])))
    assert np.array_equal(again, gram[np.ix_(order, order)])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_what_no_sum_survives_is_refused_by_contributor(bad: float) -> None:
    rows = np.zeros((5, 3000), np.float32)
    rows[3, 2100] = rows[4, 2200] = bad
    with pytest.raises(InputError, match=r"contributor 3 is (not finite|too large)"):
        float_gram(rows)


def test_what_does_not_fit_is_refused() -> None:
    gram = whole_gram(float_gram(random_rows(0, 4, 9)))
    with raises("core.out_of_range", "nearest: expected 1 to 4, got 5"):
        nearest(gram, 5)
    with raises("core.out_of_range", "f: expected 0 to 1 with 4 contributors, got 2"):
        krum_order(gram, 2)
    with raises("core.out_of_range", "f: expected 0 to 0 with 4 contributors, got 1"):
        bulyan_order(gram, 1)
    with pytest.raises(InputError, match="wrong number of values to keep: expected 1 to 2, got 3"):
        near_median(np.zeros((2, 3), np.float32), 3)
    with pytest.raises(InputError, match="contributor 1 is too large"):
        sign_gram(np.zeros((2, 2), np.uint64), 9, np.array([1, 3e38], np.float32))
    factors = [np.zeros((2, 3), np.float32)]
    with raises("core.wrong_shape", r"b\[0\] has the wrong shape"):
        lowrank_gram(factors, [np.zeros((1, 3), np.float32)])
