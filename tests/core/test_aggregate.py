"""Aggregation against NumPy: integers exactly, means to their defined rounding."""

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.codes import raises
from zoo.core import (
    apply_signs,
    available_isas,
    hamming,
    majority,
    median,
    sign_mean,
    trimmed_mean,
)
from zoo.core.errors import InputError

Round: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.uint8], NDArray[np.float32]]

WIDTHS = [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4095, 4103, 8200]
COUNTS = [1, 2, 3, 4, 15, 16, 17, 33, 100]


def a_round(n: int, cols: int, seed: int = 0, plus: float = 0.5) -> Round:
    """Votes, the same packed (noise fills up a last byte), and scales, some equal."""
    random = np.random.default_rng(seed)
    votes = random.random((n, cols)) < plus
    noise = random.random((n, -cols % 8)) < 0.5
    bits = np.packbits(np.concatenate([votes, noise], 1), axis=1, bitorder="little")
    scales = random.choice([0.0, 0.001, 0.5, 1.5, random.random()], n).astype(np.float32)
    return votes, bits, np.where(random.random(n) < 0.5, scales, random.random(n, np.float32))


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    seed, plus = draw(st.integers(0, 2**32)), draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    n, cols = draw(st.sampled_from(COUNTS)), draw(st.sampled_from(WIDTHS))
    return a_round(n, cols, seed, plus)


def values(votes: NDArray[np.bool_], scales: NDArray[np.float32]) -> NDArray[np.float64]:
    """In float64, in which sums of a few hundred of these scales are exact."""
    return np.where(votes, scales[:, None], -scales[:, None]).astype(np.float64)


def sorted_mean(array: NDArray[np.float64], trim: int) -> NDArray[np.float64]:
    kept = np.sort(array, axis=0)[trim : len(array) - trim]
    return np.asarray(kept.mean(axis=0))


EVERY: dict[str, Callable[..., NDArray[Any]]] = {
    "hamming": lambda r, how: hamming(r[1], r[0].shape[1], **how),
    "majority": lambda r, how: majority(r[1], r[0].shape[1], **how),
    "sign_mean": lambda r, how: sign_mean(r[1], r[0].shape[1], r[2], weights=r[2] + 1, **how),
    "trimmed_mean": lambda r, how: trimmed_mean(floats(r), len(r[2]) // 5, **how),
    "median": lambda r, how: median(floats(r), **how),
}
"""Each aggregator over a round, with keywords that must change nothing."""


def applied(r: Round, how: dict[str, Any]) -> NDArray[Any]:
    """The signs applied to bfloat16 weights, a scale per row."""
    weights = (floats(r).view(np.uint32) >> 16).astype(np.uint16)
    apply_signs(weights, r[1], r[2], dtype="bf16", **how)
    return weights


def floats(r: Round) -> NDArray[np.float32]:
    return values(r[0], r[2] * np.float32(0.3)).astype(np.float32)


def sharded(name: str, r: Round, shard: int, how: dict[str, Any]) -> bytes:
    """Runs an aggregator shard by shard."""
    starts = range(0, r[0].shape[1], shard)
    cut = [
        (r[0][:, at : at + shard], np.ascontiguousarray(r[1][:, at // 8 : (at + shard) // 8]), r[2])
        for at in starts
    ]
    parts = [ALL[name](part, how) for part in cut]
    whole = np.sum(parts, axis=0) if name == "hamming" else np.concatenate(parts, axis=-1)
    return whole.tobytes()


ALL = {**EVERY, "apply": applied}


@pytest.mark.parametrize("name", ALL)
def test_no_instruction_set_thread_or_shard_changes_a_byte(name: str) -> None:
    r = a_round(37, 8 * 1024 + 24)
    expected = ALL[name](r, {"isa": "scalar", "threads": 1}).tobytes()
    for isa, threads, shard in itertools.product(available_isas(), [1, 2, 8], [520, 4104, 10**6]):
        assert sharded(name, r, shard, {"isa": isa, "threads": threads}) == expected


@pytest.mark.parametrize("name", EVERY)
@given(r=rounds(), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_the_order_of_the_contributors_changes_nothing(name: str, r: Round, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(r[2]))
    expected = EVERY[name](r, {})
    expected = expected[np.ix_(order, order)] if name == "hamming" else expected
    got = EVERY[name]((r[0][order], r[1][order], r[2][order]), {})
    assert got.tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("isa", available_isas())
@given(r=rounds())
@settings(max_examples=40, deadline=None)
def test_integers_equal_numpy(isa: Any, r: Round) -> None:
    votes, bits, _ = r
    n, cols = votes.shape
    differ = np.array([[np.sum(a ^ b) for b in votes] for a in votes])
    np.testing.assert_array_equal(hamming(bits, cols, isa=isa), differ)
    counts = votes.sum(axis=0)
    expected = np.packbits(2 * counts > n, bitorder="little")
    np.testing.assert_array_equal(majority(bits, cols, isa=isa), expected)


@pytest.mark.slow
@pytest.mark.parametrize("isa", available_isas())
@given(r=rounds(), share=st.sampled_from([0.0, 0.1, 0.3, 0.49, 1.0]))
@settings(max_examples=60, deadline=None)
def test_a_trimmed_mean_equals_its_sorted_definition(isa: Any, r: Round, share: float) -> None:
    votes, _, scales = r
    trim = int(share * ((len(scales) - 1) // 2))
    got = trimmed_mean(values(votes, scales).astype(np.float32), trim, isa=isa)
    expected = sorted_mean(values(votes, scales), trim)
    np.testing.assert_allclose(got, expected, rtol=2**-23, atol=1e-15)


@pytest.mark.slow
@given(r=rounds())
@settings(max_examples=40, deadline=None)
def test_a_weighted_mean_equals_numpy(r: Round) -> None:
    votes, bits, scales = r
    weights = np.arange(1, len(scales) + 1, dtype=np.float32)
    got = sign_mean(bits, votes.shape[1], scales, weights=weights)
    expected = np.average(values(votes, scales), axis=0, weights=weights)
    np.testing.assert_allclose(got, expected, rtol=2**-23, atol=1e-13)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize(("n", "trim"), [(1, 0), (2, 0), (3, 1), (16, 7), (33, 16), (100, 0)])
def test_a_dense_trimmed_mean_equals_its_sorted_definition(isa: Any, n: int, trim: int) -> None:
    rows = np.random.default_rng(n).standard_normal((n, 149), np.float32)
    expected = np.zeros(149)
    for row in np.sort(rows, axis=0)[trim : n - trim]:
        expected += row
    got = trimmed_mean(rows, trim, isa=isa)
    assert got.tobytes() == (expected / (n - 2 * trim)).astype(np.float32).tobytes()


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), trim=st.integers(0, 8), huge=st.floats(0, 2.0**127))
@settings(max_examples=60, deadline=None)
def test_a_trimmed_mean_stays_within_the_honest_range(seed: int, trim: int, huge: float) -> None:
    """As many attackers as are trimmed, whatever their signs and however large their scales."""
    votes, _, scales = a_round(20, 200, seed)
    scales = np.random.default_rng(seed).uniform(0.5, 1, 20).astype(np.float32)
    scales[:trim] = huge
    honest = values(votes, scales)[trim:]
    got = trimmed_mean(values(votes, scales).astype(np.float32), trim)
    assert np.all(got >= honest.min(axis=0))
    assert np.all(got <= honest.max(axis=0))


@pytest.mark.slow
def test_a_thousand_contributors_agree_with_numpy() -> None:
    votes, bits, scales = a_round(1000, 600)
    expected = sorted_mean(values(votes, scales), 100)
    got = trimmed_mean(values(votes, scales).astype(np.float32), 100)
    np.testing.assert_allclose(got, expected, rtol=2**-23, atol=1e-15)
    signs = np.where(votes, 1, -1)
    np.testing.assert_array_equal(600 - 2 * hamming(bits, 600).astype(int), signs @ signs.T)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [28, 250, 500])
def test_panels_of_contributors_agree_with_numpy(n: int, threads: int) -> None:
    votes, bits, _ = a_round(n, 28_000)  # more than a block of columns
    signs = np.where(votes, 1, -1).astype(np.float32)
    products = 28_000 - 2 * hamming(bits, 28_000, threads=threads).astype(int)
    np.testing.assert_array_equal(products, (signs @ signs.T).astype(int))


def test_a_tie_is_a_minus() -> None:
    # votes + + - - in column 0, + + + - in column 1
    bits = np.array([[3], [3], [2], [0]], np.uint8)
    assert majority(bits, 2).tolist() == [2]


def test_a_median_by_hand() -> None:
    rows = np.array([[1, -1], [-2, -2], [3, -3]], np.float32)
    assert median(rows).tolist() == [1, -2]


def test_an_even_median_is_the_mean_of_the_two_in_the_middle() -> None:
    # in ascending order these are -4, -2, +1 and +3
    rows = np.array([[1], [-2], [3], [-4]], np.float32)
    assert median(rows).tolist() == [-0.5]


def test_distances_add_up_over_shards_in_place() -> None:
    _, bits, _ = a_round(5, 800)
    total = hamming(np.ascontiguousarray(bits[:, :30]), 240)
    same = hamming(np.ascontiguousarray(bits[:, 30:]), 560, into=total)
    assert same is total
    np.testing.assert_array_equal(total, hamming(bits, 800))


def test_rows_may_lie_apart() -> None:
    _, bits, scales = a_round(7, 100)
    apart = [row.copy() for row in bits]
    assert np.array_equal(sign_mean(apart, 100, scales + 1), sign_mean(bits, 100, scales + 1))


def test_bfloat16_rows_are_widened() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 77), np.float32)
    bits = (rows.view(np.uint32) >> 16).astype(np.uint16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    assert trimmed_mean(bits, 2, dtype="bf16").tobytes() == trimmed_mean(wide, 2).tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_contributor_and_index(bad: float) -> None:
    rows = np.zeros((5, 9000), np.float32)
    rows[3, 8190] = rows[3, 8500] = rows[4, 0] = bad
    with pytest.raises(InputError, match=r"contributor 3 is not finite.*at index 8190"):
        median(rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_scale_that_is_none_is_refused_by_contributor(bad: float) -> None:
    _, bits, scales = a_round(5, 9)
    scales[2] = bad
    with pytest.raises(InputError, match="invalid scale of contributor 2"):
        sign_mean(bits, 9, scales)


def test_what_cannot_be_aggregated_is_refused() -> None:
    _, bits, scales = a_round(5, 9)
    with pytest.raises(InputError, match="trim leaves nothing: expected at most 2 of 5"):
        trimmed_mean(np.zeros((5, 9), np.float32), 3)
    with raises("core.out_of_range", "trim is negative"):
        trimmed_mean(np.zeros((5, 9), np.float32), -1)
    with pytest.raises(InputError, match="expected at least one contributor, got none"):
        majority([], 9)
    with pytest.raises(InputError, match="expected at least one column, got none"):
        majority([np.zeros(0, np.uint8)], 0)
    with pytest.raises(InputError, match="contributor 1 has the wrong length: expected 2 bytes"):
        hamming([np.zeros(2, np.uint8), np.zeros(3, np.uint8)], 9)
    with pytest.raises(InputError, match="weights add up to nothing"):
        sign_mean(bits, 9, scales, weights=np.zeros(5, np.float32))
