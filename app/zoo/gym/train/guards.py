"""The checks that stop a run which learns nothing, each with a sentence."""

import math
from typing import TYPE_CHECKING

from zoo.gym.errors import GuardError

if TYPE_CHECKING:
    from zoo.backends.base import Policy, StepInfo

MAX_SKIPPED_STEPS = 3


def check_labels(learned_tokens: int, step: int) -> None:
    """Stops a step whose every label is masked.

    Raises:
        GuardError: there is nothing to learn.
    """
    if not learned_tokens:
        raise GuardError(
            f"step {step}: every label is masked: expected learned tokens, got none",
            hint="zoo-gym data inspect shows what is learned",
        )


def check_first_step(info: "StepInfo") -> None:
    """Stops after step 1 when nothing that should learn has moved.

    Raises:
        GuardError: the gradient is zero, or the weights are those of the start.
    """
    if info.skipped:
        raise GuardError("step 1: the gradient is not finite: expected numbers, got NaN or Inf")
    if info.grad_norm == 0:
        raise GuardError(
            "step 1: no gradient reached the trained weights: expected a norm above 0, got 0",
            hint="lora_target must name layers that the model uses",
        )
    if not info.changed:
        raise GuardError(
            "step 1: the trained weights equal their start: expected a change, got none",
            hint="raise learning_rate",
        )


def check_finite(policy: "Policy") -> None:
    """Stops before the result is written when a trained value is no number.

    Raises:
        GuardError: a trained tensor holds NaN or Inf.
    """
    import numpy as np

    for name, values in policy.trained():
        if not np.isfinite(values).all():
            raise GuardError(
                f"{name}: the training ended in NaN or Inf: expected finite weights",
                hint="lower learning_rate",
            )


class Divergence:
    """Stops a run whose loss or gradient stays beyond all numbers."""

    def __init__(self) -> None:
        self.skipped = 0

    def check(self, step: int, loss: float, info: "StepInfo") -> None:
        """Counts steps in a row that had to be skipped.

        Raises:
            GuardError: three in a row.
        """
        bad = info.skipped or not math.isfinite(loss)
        self.skipped = self.skipped + 1 if bad else 0
        if self.skipped >= MAX_SKIPPED_STEPS:
            raise GuardError(
                f"step {step}: loss or gradient not finite {self.skipped} times in a row",
                hint="lower learning_rate",
            )
