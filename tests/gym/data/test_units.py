"""Rows that belong together stay together, whatever batches are cut and sorted by."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.data import Example, Unit, alone, rows_of
from zoo.gym.data.batches import LEAST_SHARED, collate, first_fit, micro_batches


def row(tokens: int, name: int = 0, **extras: Any) -> Example:
    """A row whose ids are all its name."""
    mask = np.arange(tokens) > 0
    return Example(np.full(tokens, name), mask, f"row:{name}", truncated=False, extras=extras)


def units_of(shape: list[list[int]]) -> list[Unit]:
    """Units with rows of these lengths; rows are named by their place, from 1."""
    names = iter(range(1, 1000))
    return [Unit(tuple(row(tokens, next(names)) for tokens in rows)) for rows in shape]


SHAPES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=12)


@pytest.mark.slow
@given(SHAPES, st.none() | st.integers(1, 200), st.none() | st.integers(1, 5))
def test_a_unit_is_never_cut_and_its_rows_keep_their_order(
    shape: list[list[int]], max_batch_tokens: int | None, max_units: int | None
) -> None:
    units = units_of(shape)
    parts = micro_batches(units, max_batch_tokens=max_batch_tokens, max_units=max_units)
    batches = [collate(part) for part in parts]
    found = [[int(ids[0]) for ids in batch.ids_BT] for batch in batches]
    for unit in units:
        names = [int(example.ids[0]) for example in unit.rows]
        (batch,) = [names_there for names_there in found if names[0] in names_there]
        start = batch.index(names[0])
        assert batch[start : start + len(names)] == names
    assert sorted(name for batch in found for name in batch) == list(
        range(1, len(rows_of(units)) + 1)
    )


@pytest.mark.slow
@given(SHAPES, st.integers(1, 200), st.integers(1, 5))
def test_batches_keep_their_limits_but_for_one_wide_unit(
    shape: list[list[int]], max_batch_tokens: int, max_units: int
) -> None:
    for part in micro_batches(
        units_of(shape), max_batch_tokens=max_batch_tokens, max_units=max_units
    ):
        assert len(part) <= max_units
        assert len(part) == 1 or collate(part).ids_BT.size <= max_batch_tokens


@pytest.mark.slow
@given(SHAPES, st.integers(1, 200))
def test_first_fit_fills_batches_and_cuts_no_unit(shape: list[list[int]], limit: int) -> None:
    units = units_of(shape)
    parts = first_fit(units, max_tokens=limit)
    taken = [sum(unit.tokens for unit in part) for part in parts]
    assert sorted(id(unit) for part in parts for unit in part) == sorted(map(id, units))
    assert all(tokens <= limit or len(part) == 1 for tokens, part in zip(taken, parts, strict=True))
    # two batches that would fit into one are one
    assert all(one + other > limit for one, other in combinations(taken, 2))


def test_single_rows_share_a_long_common_beginning() -> None:
    def begins(shared: int) -> Any:
        ends = (np.full(own, own) for own in (1, 2, 5))
        texts = [np.concatenate([np.zeros(shared, np.int64), end]) for end in ends]
        rows = [Example(ids, np.arange(len(ids)) > 0, "row", truncated=False) for ids in texts]
        return collate(alone(rows)).prefix

    prefix = begins(LEAST_SHARED)
    assert (prefix.prompt_B.tolist(), prefix.lengths_R.tolist()) == ([0, 0, 0], [LEAST_SHARED])
    assert begins(LEAST_SHARED - 1) is None
    assert collate(alone([row(9)])).prefix is None


def test_extras_are_padded_by_token_and_stacked_by_row() -> None:
    short = row(2, ref=np.array([0.0, -1.0], np.float32), advantage=np.float32(2))
    long = row(3, ref=np.array([0.0, -2.0, -3.0], np.float32), advantage=np.float32(-2))
    batch = collate([Unit((short, long))])
    assert batch.extras["ref"].tolist() == [[0, -1, 0], [0, -2, -3]]
    assert batch.extras["advantage"].tolist() == [2, -2]


def test_extras_that_only_some_rows_have_are_refused() -> None:
    with pytest.raises(ValueError, match="got 'ref' in some only"):
        collate(alone([row(2, ref=np.zeros(2)), row(2)]))


ODD_EXTRAS: dict[str, tuple[list[Any], str]] = {
    "one value": ([np.ones(1), np.ones(1)], r"row:0: extra 'a': .* shape \(3,\), .* got \(1,\)"),
    "too short": ([np.ones(3), np.ones(1)], r"row:1: extra 'a': .* shape \(2,\), .* got \(1,\)"),
    "as wide as the batch": ([np.ones(3), np.ones(3)], r"row:1: extra 'a': .* got \(3,\)"),
    "a matrix": ([np.ones((3, 3)), np.ones((2, 2))], r"got \(3, 3\)"),
    "both": ([np.ones(3), 2.0], "expected all numbers or all arrays"),
    "text": (["x", "y"], "expected numbers, got <U1"),
    "nothing": ([None, None], "expected numbers, got object"),
}


@pytest.mark.parametrize(("values", "why"), ODD_EXTRAS.values(), ids=ODD_EXTRAS)
def test_extras_of_another_shape_or_type_are_refused(values: list[Any], why: str) -> None:
    rows = [row(3, 0, a=values[0]), row(2, 1, a=values[1])]
    with pytest.raises(ValueError, match=why):
        collate(alone(rows))


@pytest.mark.parametrize("name", ["mask", "lengths", "window_tokens"])
def test_extras_named_like_arrays_of_the_batch_are_refused(name: str) -> None:
    extras: dict[str, Any] = {name: np.ones(2)}
    with pytest.raises(ValueError, match=f"got '{name}'"):
        collate(alone([row(2, **extras)]), {"window_tokens": 1.0})


@pytest.mark.parametrize(
    ("given", "taken"),
    [("float16", "float32"), ("float64", "float32"), ("uint16", "int64"), ("bool", "bool")],
)
def test_extras_have_the_types_that_objectives_compute_with(given: str, taken: str) -> None:
    batch = collate(alone([row(2, a=np.ones(2, given), b=np.ones(2, given)[0])]))
    assert [batch.extras[name].dtype.name for name in "ab"] == [taken, taken]


def of_ids(*ids: int) -> Example:
    return Example(np.array(ids), np.arange(len(ids)) > 0, "row", truncated=False)


@pytest.mark.parametrize(
    ("rows", "shared"),
    [
        ([(5, 6, 7, 1), (5, 6, 7, 2), (5, 6, 7)], 3),
        ([(5, 6, 7), (5, 6, 7)], 3),
        ([(5, 6, 7), (5, 9, 7)], 1),
        ([(5, 6), (4, 6)], 0),
        ([(5, 6, 7)], 0),
    ],
)
def test_rows_of_a_unit_share_the_tokens_that_all_begin_with(
    rows: list[tuple[int, ...]], shared: int
) -> None:
    assert Unit(tuple(of_ids(*ids) for ids in rows)).shared_tokens == shared


def test_a_batch_names_the_tokens_that_its_units_share() -> None:
    pair, other = (of_ids(1, 2, 3), of_ids(1, 2, 4)), (of_ids(8, 2), of_ids(9), of_ids(8))
    prefix = collate([Unit(pair), Unit(other)]).prefix
    assert prefix is not None
    assert (prefix.prompt_B.tolist(), prefix.lengths_R.tolist()) == ([0, 0, 1, 1, 1], [2, 0])
    assert collate(alone([*pair, *other])).prefix is None
