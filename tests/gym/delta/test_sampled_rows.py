"""How many held-out rows a delta is measured on, and their digest."""

from collections.abc import Sequence

import numpy as np
import pytest

import zoo.core
from zoo.gym.data import Example
from zoo.gym.delta.quality import rows_digest, sampled_rows


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


def row(ids: Sequence[int], mask: Sequence[int]) -> Example:
    return Example(np.array(ids), np.array(mask, np.bool_), "drawn:1", truncated=False)


def test_the_digest_of_rows_is_of_their_tokens_and_of_what_is_scored() -> None:
    scored = [row([5, 6], [0, 1]), row([7], [0]), row([8, 9], [0, 1])]
    content = b"zoo-gym measured rows 1\n"
    for ids in ([5, 6], [8, 9]):  # nothing of the second row is scored
        content += (2).to_bytes(8, "little") + np.array(ids, "<i8").tobytes() + bytes([0, 1])
    assert rows_digest(scored) == zoo.core.digest(content)
    assert rows_digest(scored) != rows_digest([row([5, 6], [1, 1]), *scored[1:]])
    assert rows_digest(scored) != rows_digest([row([5, 7], [0, 1]), *scored[1:]])
