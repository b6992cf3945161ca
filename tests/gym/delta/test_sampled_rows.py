"""How many held-out rows a delta is measured on."""

import numpy as np
import pytest

from zoo.gym.data import Example
from zoo.gym.delta.quality import sampled_rows


def rows(count: int, tokens: int) -> list[Example]:
    ids, mask = np.zeros(tokens, np.int64), np.ones(tokens, np.bool_)
    return [Example(ids, mask, f"x:{i}", truncated=False) for i in range(count)]


# 8192 // 1000 tokens of a large model are 8 rows; a small one has room for all 40
@pytest.mark.parametrize(("parameters", "expected"), [(600_000_000, 8), (800_000, 40)])
def test_a_large_model_is_measured_on_fewer_rows(parameters: int, expected: int) -> None:
    assert len(sampled_rows(rows(40, 1000), parameters)) == expected


def test_a_row_beyond_the_budget_is_still_measured() -> None:
    assert len(sampled_rows(rows(3, 20_000), 600_000_000)) == 1


def test_the_user_can_ask_for_all_rows() -> None:
    every = rows(40, 1000)
    assert sampled_rows(every, 600_000_000, 1000) == every


def test_the_sample_is_spread_over_all_rows() -> None:
    assert [row.source for row in sampled_rows(rows(40, 1), 1, 4)] == [
        "x:0",
        "x:10",
        "x:20",
        "x:30",
    ]
