"""The interval of the gain that `bench.rewards` prints."""

import numpy as np

from bench.rewards import lower_end


def test_the_lower_end_is_below_the_gain_and_zero_without_one() -> None:
    base = np.arange(40) % 2 == 0
    better = np.stack([base | (np.arange(40) % 4 == 1)] * 2)  # 25 points more
    assert 5 < lower_end(base, better) < 25
    assert lower_end(base, np.stack([base, base])) == 0
