"""Advantages of sampled answers, from their rewards; a reward of NaN is a missing one.

Legend: N groups, G answers of a group. Everything is NumPy on the host: a few numbers per answer.
"""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scale = Literal["group", "batch", "none"]

SMALLEST_STD = 1e-4
"""Added to the standard deviation that advantages are divided by."""


def group_advantages(rewards_NG: "NDArray[np.float64]", scale: Scale) -> "NDArray[np.float64]":
    """Returns how much better each answer is than its group, [N, G] (arXiv:2402.03300, sec. 4.1.2).

    The mean of the group is subtracted. The difference is divided by the standard deviation (with
    Bessel's correction) of the group, or of all rewards, or by nothing (arXiv:2503.20783). NaN
    rewards count nowhere and have an advantage of 0.

    Args:
        rewards_NG: the rewards.
        scale: what the differences are divided by.
    """
    import numpy as np

    above_NG = rewards_NG - _mean(rewards_NG)
    if scale == "group":
        above_NG = above_NG / (_std(rewards_NG) + SMALLEST_STD)
    elif scale == "batch":
        above_NG = above_NG / (_std(rewards_NG.reshape(1, -1)) + SMALLEST_STD)
    return np.where(np.isnan(rewards_NG), 0.0, above_NG)


def leave_one_out(rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Returns each reward minus the mean of the others in its group (arXiv:2402.14740, eq. 8).

    An answer without a reward, or without another one that has a reward, has an advantage of 0.
    """
    import numpy as np

    known_NG = ~np.isnan(rewards_NG)
    rest_NG = known_NG.sum(1, keepdims=True) - 1
    total_N1 = np.nansum(rewards_NG, axis=1, keepdims=True)
    others_NG = (total_N1 - rewards_NG) / np.maximum(rest_NG, 1)
    return np.where(known_NG & (rest_NG > 0), rewards_NG - others_NG, 0.0)


def normalised(
    advantages_NG: "NDArray[np.float64]", known_NG: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """Returns advantages minus their mean, divided by their standard deviation; unknown ones 0.

    Args:
        advantages_NG: the advantages.
        known_NG: which of them count.
    """
    import numpy as np

    flat_1M = np.where(known_NG, advantages_NG, np.nan).reshape(1, -1)
    scaled_NG = (advantages_NG - _mean(flat_1M)) / (_std(flat_1M) + SMALLEST_STD)
    return np.where(known_NG, scaled_NG, 0.0)


def without_spread(rewards_NG: "NDArray[np.float64]") -> "NDArray[np.bool_]":
    """Returns for each group whether its rewards are all equal, so that it teaches nothing."""
    import numpy as np

    lowest_N = np.where(np.isnan(rewards_NG), np.inf, rewards_NG).min(1)
    highest_N = np.where(np.isnan(rewards_NG), -np.inf, rewards_NG).max(1)
    equal_N: NDArray[np.bool_] = ~(highest_N > lowest_N)
    return equal_N


def _mean(rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Returns the mean of each row without NaN, [N, 1]; 0 for a row without numbers."""
    import numpy as np

    known_N1 = (~np.isnan(rewards_NG)).sum(1, keepdims=True)
    mean_N1: NDArray[np.float64] = np.nansum(rewards_NG, axis=1, keepdims=True)
    mean_N1 /= np.maximum(known_N1, 1)
    return mean_N1


def _std(rewards_NG: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Returns the standard deviation of each row without NaN, [N, 1]; 0 for less than two."""
    import numpy as np

    known_N1 = (~np.isnan(rewards_NG)).sum(1, keepdims=True)
    squares_N1 = np.nansum((rewards_NG - _mean(rewards_NG)) ** 2, axis=1, keepdims=True)
    std_N1: NDArray[np.float64] = np.sqrt(squares_N1 / np.maximum(known_N1 - 1, 1))
    return std_N1
