"""Forms of contributions against plain rows of the same values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.round_forms import in_form, sign_tensor
from zoo.core import exact_products
from zoo.gym.errors import InputError
from zoo.gym.rounds import encodings as base
from zoo.gym.rounds.encodings import Contributions, Factors, Floats, LowRank, Signs, SignTensor
from zoo.gym.rounds.rules.aggregate import combine, select
from zoo.gym.rounds.rules.method import AggregationMethod, Rule

Method = AggregationMethod


def random_signs(seed: int, n: int = 7) -> Contributions:
    rng = np.random.default_rng(seed)
    rows = {name: rng.standard_normal((n, cols), np.float32) for name, cols in SIZES.items()}
    return in_form("signs", rows)


SIZES = {"a": 30, "b": 2500}


def random_factors(seed: int, n: int = 7) -> LowRank:
    rng = np.random.default_rng(seed)
    a = [rng.standard_normal((2, 30), np.float32) for _ in range(n)]
    b = [rng.standard_normal((2, 50), np.float32) for _ in range(n)]
    return LowRank({"w": Factors(a, b)})


def plain(contributions: Contributions) -> Floats:
    """The same values as float32."""
    tensors: dict[str, list[list[NDArray[np.float32]]]] = {}
    for name, _, rows in contributions.columns():
        tensors.setdefault(name, [[] for _ in rows])
        for parts, row in zip(tensors[name], rows, strict=True):
            parts.append(row)
    return Floats({name: [np.concatenate(row) for row in each] for name, each in tensors.items()})


def result(rule: Rule, contributions: Contributions) -> bytes:
    pieces = combine(select(rule, contributions), contributions)
    return b"".join(piece.values.tobytes() for piece in pieces)


def values(rule: Rule, contributions: Contributions) -> NDArray[np.float32]:
    return np.frombuffer(result(rule, contributions), np.float32)


@pytest.mark.parametrize(
    "method", ["byzantine_robust", "krum", "trimmed_mean", "mean", "norm_clip"]
)
@pytest.mark.parametrize("make", [random_signs, random_factors], ids=["signs", "lowrank"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_form_gives_what_its_values_give(method: str, make: type[Signs], seed: int) -> None:
    contributions: Contributions = make(seed)  # type: ignore[arg-type]
    rule = Rule(Method(method), 2 if method not in {"mean", "norm_clip"} else 0)
    found, expected = values(rule, contributions), values(rule, plain(contributions))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["byzantine_robust", "median"])
@pytest.mark.parametrize(
    "make", [random_signs, random_factors, lambda seed: plain(random_signs(seed))]
)
def test_the_size_of_shards_changes_no_byte(
    method: str, make: type[Signs], monkeypatch: pytest.MonkeyPatch
) -> None:
    contributions: Contributions = make(0)  # type: ignore[arg-type]
    rule = Rule(Method(method), 2)
    expected = result(rule, contributions)
    real = base.shards
    smaller = lambda columns, size=0: real(columns, 1024)  # noqa: E731
    monkeypatch.setattr("zoo.gym.rounds.encodings.shards", smaller)
    monkeypatch.setattr("zoo.gym.rounds.encodings.SHARD", 90)
    assert result(rule, contributions) == expected


def test_a_majority_has_the_median_of_the_scales() -> None:
    # + + - and - - + with scales 1, 2 and 4
    bits = [np.array([byte], np.uint8) for byte in (0b01, 0b01, 0b10)]
    signs = Signs({"w": SignTensor(bits, np.array([1, 2, 4], np.float32), (1, 2))})
    assert values(Rule(Method.MAJORITY, 1), signs).tolist() == [2, -2]


def test_padding_bits_between_rows_change_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, 7, 11), np.float32)
    flat = sign_tensor("w", rows.reshape(5, 77))
    bits = [np.packbits(row > 0, axis=1, bitorder="little").reshape(-1) for row in rows]
    padded = SignTensor(bits, flat.scales, (7, 11))
    for rule in (Rule(Method.KRUM, 1), Rule(Method.MAJORITY, 1), Rule(Method.TRIMMED_MEAN, 1)):
        assert result(rule, Signs({"w": padded})) == result(rule, Signs({"w": flat}))
    assert Signs({"w": padded}).gram().tolist() == Signs({"w": flat}).gram().tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_value_that_no_sum_survives_is_refused_by_tensor(bad: float) -> None:
    rows = np.ones((5, 20), np.float32)
    rows[3, 7] = bad
    with pytest.raises(InputError, match=r"tensor 'v': contributor 3 is (not finite|too large)"):
        select(
            Rule(Method.KRUM, 1), Floats({"a": list(np.ones((5, 9), np.float32)), "v": list(rows)})
        )
    scales = np.array([1, 1, 1, bad, 1], np.float32)
    tensor = SignTensor([np.zeros(1, np.uint8)] * 5, scales, (1, 8))
    with pytest.raises(InputError, match=r"tensor 'v': .*contributor 3"):
        select(Rule(Method.KRUM, 1), Signs({"v": tensor}))
    a, b = [np.ones((1, 3), np.float32)] * 4, [np.ones((1, 2), np.float32)] * 4
    broken = LowRank({"v": Factors([*a, np.full((1, 3), bad, np.float32)], [*b, b[0]])})
    with pytest.raises(InputError, match=r"tensor 'v': contributor 4 is (not finite|too large)"):
        select(Rule(Method.KRUM, 1), broken)


def test_products_are_the_same_for_any_number_of_threads() -> None:
    signs = random_signs(3)
    assert exact_products(signs.gram(threads=1)) == exact_products(signs.gram(threads=2))
