"""Warnings about sampled answers, long before a run learns nothing or something else.

Each is a mean over `STEPS` steps, and emitted once in a process.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from zoo.gym.objectives.advantages import without_spread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.gym.train.rollouts import Answer

STEPS = 10
MOST_EQUAL, MOST_SAME, MOST_CUT, MOST_BY_LENGTH = 0.5, 0.5, 0.3, 0.9


class RolloutAlarms:
    """Looks at the answers of each step."""

    def __init__(self) -> None:
        self._values = {name: deque[float](maxlen=STEPS) for name in _ALARMS}
        self._emitted: set[str] = set()

    def look(
        self, answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
    ) -> Iterator[str]:
        """Yields a warning for each alarm that begins with these answers, [N][G].

        Args:
            answers: the answers of a step.
            rewards_NG: their rewards; NaN is a missing one.
        """
        for name, (measure, limit, sentence) in _ALARMS.items():
            values = self._values[name]
            values.append(measure(answers, rewards_NG))
            mean = sum(values) / len(values)
            if len(values) == STEPS and mean >= limit and name not in self._emitted:
                self._emitted.add(name)
                yield f"the last {STEPS} steps: {sentence.format(mean)}"


def equal_share(_answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]") -> float:
    """Returns the share of groups with equal rewards."""
    return float(without_spread(rewards_NG).mean())


def collapsed_share(
    answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
) -> float:
    """Returns the share of groups of one text, whose reward is below the highest of the step."""
    import numpy as np

    highest = np.nanmax(rewards_NG, initial=-np.inf)
    lowest_N = np.nanmax(rewards_NG, axis=1, initial=-np.inf) < highest
    same = [len({answer.text for answer in group}) == 1 for group in answers]
    return float(np.mean(lowest_N & np.array(same)))


def cut_share(answers: "Sequence[Sequence[Answer]]", _: "NDArray[np.float64]") -> float:
    """Returns the share of answers that reached the maximum length."""
    cut = [answer.truncated for group in answers for answer in group]
    return sum(cut) / len(cut)


def length_correlation(
    answers: "Sequence[Sequence[Answer]]", rewards_NG: "NDArray[np.float64]"
) -> float:
    """Returns how strictly rewards follow the lengths of answers within groups, 0 to 1."""
    import numpy as np

    lengths_NG = np.array([[len(answer.ids) for answer in group] for group in answers], dtype=float)
    known_NG = ~np.isnan(rewards_NG)
    rows = [
        (
            rewards[has_reward] - rewards[has_reward].mean(),
            lengths[has_reward] - lengths[has_reward].mean(),
        )
        for rewards, lengths, has_reward in zip(rewards_NG, lengths_NG, known_NG, strict=True)
        if has_reward.any()
    ]
    above = np.concatenate([reward for reward, _ in rows]) if rows else np.zeros(0)
    longer = np.concatenate([length for _, length in rows]) if rows else np.zeros(0)
    size = float(np.sqrt((above**2).sum() * (longer**2).sum()))
    return abs(float((above * longer).sum())) / size if size else 0.0


Measure = Callable[[Sequence[Sequence["Answer"]], "NDArray[np.float64]"], float]

_ALARMS: dict[str, tuple[Measure, float, str]] = {
    "equal": (
        equal_share,
        MOST_EQUAL,
        "the answers to {:.0%} of the prompts have equal rewards, which teach nothing; prompts that"
        " are sometimes answered right, or a finer reward, teach more",
    ),
    "collapsed": (
        collapsed_share,
        MOST_SAME,
        "{:.0%} of the prompts get one and the same answer each time, which is not the best:"
        " nothing better can be found there; try a lower learning_rate, or entropy_coef=0.01",
    ),
    "cut": (
        cut_share,
        MOST_CUT,
        "{:.0%} of the answers are cut at max_completion_length before they end; raise it, or"
        " reward shorter answers",
    ),
    "length": (
        length_correlation,
        MOST_BY_LENGTH,
        "the reward follows the length of answers (correlation {:.2f}): little else is learned",
    ),
}
