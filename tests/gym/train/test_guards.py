"""Runs that would learn nothing are stopped with a sentence."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from zoo.backends.base import StepInfo
from zoo.gym.errors import GuardError
from zoo.gym.train.guards import Divergence, check_finite, check_first_step, check_labels

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

    with pytest.raises(GuardError, match=r"layer\.lora_A\.weight: the training ended in NaN"):
        check_finite(Broken())  # type: ignore[arg-type]


def test_a_window_without_labels_is_told() -> None:
    with pytest.raises(GuardError, match="step 4: every label is masked"):
        check_labels(0, step=4)


def test_two_bad_steps_are_forgiven_and_three_in_a_row_are_not() -> None:
    bad = StepInfo(math.inf, skipped=True, changed=False)
    divergence = Divergence()
    for info in (bad, bad, GOOD, bad, bad):
        divergence.check(1, 1.0, info)
    with pytest.raises(GuardError, match="3 consecutive steps"):
        divergence.check(2, 1.0, bad)
