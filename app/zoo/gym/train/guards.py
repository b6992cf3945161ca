"""Checks that stop a run that learns nothing, each with an error message."""

import math
from typing import TYPE_CHECKING

from zoo.gym.errors import GuardError

if TYPE_CHECKING:
    from zoo.backends.base import Policy, StepInfo
    from zoo.gym.train.method import Method

MAX_SKIPPED_STEPS = 3


def check_needs(method: "Method") -> None:
    """Raises an error if the objective needs statistics that this model cannot give.

    Raises:
        GuardError: one needs a teacher or a value head, and there is none.
    """
    from zoo.backends.base import Stat

    config, needs = method.plan.config, method.objective.needs
    compared = sorted(needs & {Stat.FORWARD_KL, Stat.REVERSE_KL})
    if compared and method.teacher is None:
        raise GuardError(
            f"stage {config.stage}: {compared[0]}: expected a teacher to compare with, got none"
        )
    if Stat.VALUES in needs and not method.load_spec(config).value_head:
        raise GuardError(
            f"stage {config.stage}: {Stat.VALUES}: expected a value head, got a model without one"
        )


def check_labels(learned_tokens: int, step: int) -> None:
    """Raises an error for a step in which every label is masked.

    Raises:
        GuardError: there is nothing to learn.
    """
    if not learned_tokens:
        raise GuardError(
            f"step {step}: every label is masked: expected learned tokens, got none",
            hint="zoo-gym data inspect shows what is learned",
        )


def check_first_step(info: "StepInfo", step: int = 1) -> None:
    """Raises an error after the first step with a gradient if the trained weights have not changed.

    Raises:
        GuardError: the gradient is zero or not finite, or the weights are unchanged.
    """
    if info.skipped:
        raise GuardError(
            f"step {step}: the gradient is not finite: expected numbers, got NaN or Inf"
        )
    if info.grad_norm == 0:
        raise GuardError(
            f"step {step}: no gradient reached the trained weights: expected a norm above 0, got 0",
            hint="lora_target must name layers that the model uses",
        )
    if not info.changed:
        raise GuardError(
            f"step {step}: the trained weights did not change: expected a change, got none",
            hint="raise learning_rate",
        )


def check_finite(policy: "Policy") -> None:
    """Raises an error, before the result is written, if a trained value is not finite.

    Raises:
        GuardError: a trained tensor contains NaN or Inf.
    """
    import numpy as np

    for name, values in policy.trained():
        if not np.isfinite(values).all():
            raise GuardError(
                f"{name}: the training ended in NaN or Inf: expected finite weights",
                hint="lower learning_rate",
            )


class Divergence:
    """Stops a run whose loss or gradient stays NaN or infinite."""

    def __init__(self) -> None:
        self.skipped = 0

    def check(self, step: int, loss: float, info: "StepInfo") -> None:
        """Counts consecutive steps that were skipped or had no finite loss.

        Raises:
            GuardError: three in a row.
        """
        bad = info.skipped or not math.isfinite(loss)
        self.skipped = self.skipped + 1 if bad else 0
        if self.skipped >= MAX_SKIPPED_STEPS:
            raise GuardError(
                f"step {step}: loss or gradient not finite in {self.skipped} consecutive steps",
                hint="lower learning_rate",
            )
