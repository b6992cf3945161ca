"""Checks that stop a run that learns nothing, each with an error message."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.gym.errors import GuardError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy, StepInfo
    from zoo.gym.train.method import Method

MAX_SKIPPED_STEPS = 3

MOST_EQUAL_GROUPS = 64
"""Groups in a row without a spread of rewards that stop a run."""


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
            f"stage {config.stage}: {compared[0]}: expected a teacher to compare with, got none",
            code="train.no_teacher",
        )
    if Stat.VALUES in needs and not method.load_spec(config).value_head:
        raise GuardError(
            f"stage {config.stage}: {Stat.VALUES}: expected a value head, got a model without one",
            code="train.no_value_head",
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
            code="train.labels_masked",
        )


def check_first_step(info: "StepInfo", step: int = 1) -> None:
    """Raises an error after the first step with a gradient if the trained weights have not changed.

    Raises:
        GuardError: the gradient is zero or not finite, or the weights are unchanged.
    """
    if info.skipped:
        raise GuardError(
            f"step {step}: the gradient is not finite: expected numbers, got NaN or Inf",
            code="train.gradient_not_finite",
        )
    if info.grad_norm == 0:
        raise GuardError(
            f"step {step}: no gradient reached the trained weights: expected a norm above 0, got 0",
            hint="lora_target must name layers that the model uses",
            code="train.no_gradient",
        )
    if not info.changed:
        raise GuardError(
            f"step {step}: the trained weights did not change: expected a change, got none",
            hint="raise learning_rate",
            code="train.weights_unchanged",
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
                code="train.weights_not_finite",
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
                code="train.loss_not_finite",
            )


class EqualRewards:
    """Stops a run in which the rewards of each group have been equal for long: it learns nothing.

    Attributes:
        groups: the latest groups in a row with equal rewards.
        lowest: the lowest reward in them.
        seen: the lowest and the highest reward of the run: of answers, and held-out means.
    """

    def __init__(self) -> None:
        self.groups, self.lowest = 0, math.inf
        self.seen = (math.inf, -math.inf)

    def saw(self, *rewards: float) -> None:
        """Notes rewards, or the mean reward of the held-out prompts; NaN is none."""
        numbers = [reward for reward in rewards if not math.isnan(reward)]
        self.seen = (
            (min(self.seen[0], *numbers), max(self.seen[1], *numbers)) if numbers else self.seen
        )

    def check(
        self,
        equal_N: Sequence[bool],
        rewards_NG: "NDArray[np.float64]",
        counted_NG: "NDArray[np.float64] | None" = None,
    ) -> None:
        """Counts the groups of a step.

        Args:
            equal_N: whether the rewards of each group are equal, as the method counts them.
            rewards_NG: the rewards; NaN is a missing one.
            counted_NG: the rewards as the method counts them, if they differ, such as clipped ones.

        Raises:
            GuardError: there are 64 or more groups in a row.
        """
        for is_equal, group in zip(equal_N, rewards_NG.tolist(), strict=True):
            last = [value for value in group if not math.isnan(value)]
            self.saw(*last)
            lowest = self.lowest if is_equal else math.inf
            self.groups = self.groups + 1 if is_equal else 0
            self.lowest = min(lowest, *last) if is_equal and last else lowest
        if self.groups >= MOST_EQUAL_GROUPS:
            counted = (rewards_NG if counted_NG is None else counted_NG)[-1].tolist()
            raise self._fault([value for value in counted if not math.isnan(value)])

    def _fault(self, last: Sequence[float]) -> GuardError:
        """Returns the error; rewards as high as any, where others were lower, are no fault."""
        got = f"{last[0]:g} for every answer of the last one" if last else "no reward at all"
        expected = f"expected better and worse answers to compare, got {got}"
        keep = "'zoo-gym runs finish RUN' keeps the best step"
        if self.seen[0] < self.lowest == self.seen[1]:
            return GuardError(
                f"{self.groups} groups in a row have equal rewards, which are the highest of this "
                f"run: {expected}",
                hint=f"the answers are all as good as the reward can tell; {keep}",
                code="train.equal_rewards",
            )
        return GuardError(
            f"{self.groups} groups in a row have equal rewards: {expected}",
            hint="samples.jsonl of the run has the answers; use easier or harder prompts, a higher "
            f"temperature or a finer reward; {keep}",
            code="train.equal_rewards",
        )

    def state(self) -> dict[str, object]:
        """Returns what a checkpoint stores."""
        finite = [None if math.isinf(value) else value for value in (self.lowest, *self.seen)]
        return {"equal_groups": self.groups, "lowest": finite[0], "seen": finite[1:]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned; checkpoints of earlier versions have only the count."""
        self.groups = int(state["equal_groups"])
        lowest = state.get("lowest", -math.inf)
        low, high = state.get("seen", (None, None))
        self.lowest = math.inf if lowest is None else float(lowest)
        self.seen = (
            math.inf if low is None else float(low),
            -math.inf if high is None else float(high),
        )
