"""Runs that would learn nothing are stopped with a sentence."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from tests.codes import raises
from zoo.backends.base import StepInfo
from zoo.gym.errors import GuardError
from zoo.gym.train.guards import (
    Divergence,
    EqualRewards,
    check_finite,
    check_first_step,
    check_labels,
)

GOOD = StepInfo(grad_norm=1.0, skipped=False, changed=True)


def test_a_healthy_first_step_passes() -> None:
    check_first_step(GOOD)
    check_labels(1, step=1)


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        (StepInfo(0.0, skipped=False, changed=False), "no gradient reached"),
        (StepInfo(0.5, skipped=False, changed=False), "weights did not change"),
        (StepInfo(math.nan, skipped=True, changed=False), "not finite"),
    ],
)
def test_a_first_step_that_moves_nothing_is_told(info: StepInfo, sentence: str) -> None:
    with pytest.raises(GuardError, match=sentence):
        check_first_step(info)


def test_weights_that_end_as_nan_are_never_written() -> None:
    class Broken:
        def trained(self) -> Iterator[tuple[str, np.ndarray]]:
            yield "good", np.ones(2)
            yield "layer.lora_A.weight", np.array([1.0, np.nan])

    with raises("train.weights_not_finite", r"layer\.lora_A\.weight: the training ended in NaN"):
        check_finite(Broken())  # type: ignore[arg-type]


def test_a_window_without_labels_is_told() -> None:
    with raises("train.labels_masked", "step 4: every label is masked"):
        check_labels(0, step=4)


def test_two_bad_steps_are_forgiven_and_three_in_a_row_are_not() -> None:
    bad = StepInfo(math.inf, skipped=True, changed=False)
    divergence = Divergence()
    for info in (bad, bad, GOOD, bad, bad):
        divergence.check(1, 1.0, info)
    with raises("train.loss_not_finite", "3 consecutive steps"):
        divergence.check(2, 1.0, bad)


@pytest.mark.parametrize(
    ("held_out", "first", "then", "is_highest"),
    [
        (0.5, [0.0, 1.0], 1.0, True),  # solved
        (0.5, [1.0, 1.0], 1.0, True),
        (1.0, [1.0, 1.0], 1.0, False),  # nothing was ever worse: the reward may be constant
        (0.0, [0.0, 0.0], 0.0, False),
        (0.5, [0.0, 1.0], 0.0, False),  # collapsed
        (0.9, [0.0, 0.5], 0.5, False),  # below the held-out reward
        (0.5, [0.0, 0.0], 1.0, False),  # the first group is one of those in a row
    ],
)
def test_equal_rewards_are_the_highest_only_if_others_were_lower(
    held_out: float, first: list[float], then: float, is_highest: bool
) -> None:
    guard = EqualRewards()
    guard.saw(held_out, math.nan)
    guard.check([first[0] == first[1]], np.array([first]))
    resumed = EqualRewards()
    resumed.restore(json.loads(json.dumps(guard.state(), allow_nan=False)))
    with raises("train.equal_rewards", "groups in a row have equal rewards") as caught:
        resumed.check([True] * 64, np.full((64, 2), then))
    assert ("which are the highest of this run" in caught.value.message) is is_highest


def test_63_groups_in_a_row_do_not_stop_a_run() -> None:
    guard = EqualRewards()
    guard.restore(json.loads(json.dumps(EqualRewards().state(), allow_nan=False)))
    guard.check([True] * 63, np.ones((63, 2)))
    guard.check([False, True], np.array([[0.0, 1.0], [1.0, math.nan]]))
    assert guard.groups == 1
