"""The gains that `bench.rewards` prints, and their interval."""

from pathlib import Path

import numpy as np
import pytest

from bench.rewards import SHUFFLED, lower_end, measure, right_answers


@pytest.mark.slow
def test_the_lower_end_is_below_the_gain_and_zero_without_one() -> None:
    base = np.arange(40) % 2 == 0
    better = np.stack([base | (np.arange(40) % 4 == 1)] * 2)  # 25 points more
    assert 5 < lower_end(base, better) < 25
    assert lower_end(base, np.stack([base, base])) == 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("way", "least", "most"), [("grpo", 20, 100), (SHUFFLED, -100, 2), ("rloo", 20, 100)]
)
def test_rewards_alone_teach_additions_unless_they_are_shuffled(
    tmp_path: Path, way: str, least: float, most: float
) -> None:
    base, found = right_answers(None), measure(tmp_path, way, seeds=(1,))
    assert least <= 100 * (found.right.mean() - base.mean()) <= most
