"""The published settings of a `DeltaSoup`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from zoo.gym.config.settings import Settings
from zoo.gym.rounds.rules.method import (
    AggregationMethod,
    Rule,
    default_f,
    most_f,
    rule_for,
    takes_f,
    takes_given,
)

Validator = Callable[[Path], float]
"""Rates a contribution, given as its delta file, from 0 to 1."""

_OF_ROUNDS = {
    "contribution_window": "zoo-gym round create --commit-days sets a deadline",
    "min_reputation": "reputations are kept over the rounds of `zoo-gym round`",
    "reputation_decay": "reputations are kept over the rounds of `zoo-gym round`",
}
_NOT_DONE = {
    "diversity_bonus": "copies are refused, and nothing else is paid for being different",
    "compression_threshold": "use_bitdelta decides how contributions are coded",
    "safety_checks": "refusals and triggers are probed by nothing yet",
}
_PERCENT_OF = AggregationMethod.TRIMMED_MEAN


class DeltaSoupConfig(Settings, frozen=True):
    """How contributions are combined, under the published names; immutable.

    A setting that is given and would have no effect is refused by name.
    """

    method: AggregationMethod = Field(
        default=AggregationMethod.BYZANTINE_ROBUST, description="the aggregation rule"
    )
    differential_privacy: bool = Field(
        default=False, description="clip, sum and add noise in place of a rule"
    )
    privacy_epsilon: float = Field(default=1.0, ge=0.1, le=10, description="of the result")
    privacy_delta: float = Field(default=1e-5, gt=0, lt=1, description="of the result")
    min_contributors: int = Field(
        default=2, ge=1, description="fewer without copies raise an error"
    )
    max_contributors: int = Field(default=1000, ge=1, description="more are refused")
    trim_percent: float = Field(
        default=0.2, ge=0, lt=0.5, description="share trimmed on each side by the trimmed mean"
    )
    byzantine_threshold: float = Field(
        default=0.3, ge=0, lt=0.5, description="share of malicious contributors to withstand"
    )
    use_bitdelta: bool = Field(
        default=True,
        description="signs with one scale for each tensor; by default only where changes allow it",
    )
    validate_contributions: bool = Field(default=True, description="always done")
    quality_validator: Validator | None = Field(
        default=None, description="rates a contribution's delta file from 0 to 1"
    )
    quality_threshold: float = Field(
        default=0.8, gt=0, le=1, description="a lower quality earns proportionally fewer points"
    )
    enable_rewards: bool = Field(default=True, description="share points out")
    reward_pool: int = Field(default=1000, ge=0, le=10**12, description="points to share out")
    reward_rule: Literal["weight", "published"] = Field(
        default="weight",
        description="by weight in the result, or by quality and participation as published",
    )
    quality_weight: float = Field(default=0.7, ge=0, le=1, description="of rule published")
    participation_weight: float = Field(default=0.3, ge=0, le=1, description="of rule published")

    @model_validator(mode="before")
    @classmethod
    def _refuse_others(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        if isinstance(values, dict):
            for name, instead in (*_OF_ROUNDS.items(), *_NOT_DONE.items()):
                if name in values:
                    raise _error(f"{name}: has no effect in a DeltaSoup: {instead}")
            if "noise_scale" in values:
                raise _error("noise_scale: computed from privacy_epsilon: expected none")
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.validate_contributions:
            raise _error("validate_contributions: expected true: every contribution is validated")
        for name in self.model_fields_set:
            if reason := self._idle(name):
                raise _error(f"{name}: has no effect {reason}: expected none")
        if self.differential_privacy:
            self._check_private()
        if self.min_contributors > self.max_contributors:
            raise _error(
                f"min_contributors: expected at most max_contributors, {self.max_contributors}, "
                f"got {self.min_contributors}"
            )
        share = round(self.quality_weight + self.participation_weight, 9)
        if share != 1:
            raise _error(
                f"quality_weight and participation_weight: expected a sum of 1, got {share}"
            )
        if "byzantine_threshold" in self.model_fields_set:
            self._check_share()
        return self

    def _idle(self, name: str) -> str:
        """Returns why a given setting would do nothing; empty if it acts."""
        method = self.method.value
        published = self.reward_rule == "published"
        reasons = {
            **dict.fromkeys(
                ("privacy_epsilon", "privacy_delta"),
                "" if self.differential_privacy else "without differential_privacy=True",
            ),
            **dict.fromkeys(
                ("quality_weight", "participation_weight"),
                "" if published else "without reward_rule='published'",
            ),
            "quality_threshold": self._why_no_threshold(),
            "quality_validator": self._why_no_validator(),
            **dict.fromkeys(
                ("reward_pool", "reward_rule"),
                "" if self.enable_rewards else "with enable_rewards=False",
            ),
            "trim_percent": "" if self.method is _PERCENT_OF else f"on {method}",
            "byzantine_threshold": why_no_share(self.method),
        }
        return reasons.get(name, "")

    def _why_no_threshold(self) -> str:
        if not self.enable_rewards:
            return "with enable_rewards=False"
        if self.reward_rule == "published":
            return "with reward_rule='published'"
        return "" if self.quality_validator else "without a quality_validator"

    def _why_no_validator(self) -> str:
        """A validator rates for points, and for the reputations that a weighted mean takes."""
        rates = self.enable_rewards or self.needs == "reputations"
        return "" if rates or self.quality_validator is None else "with enable_rewards=False"

    def _check_private(self) -> None:
        """Refuses what a private soup cannot have: what one user sends decides nothing else."""
        if self.method not in {AggregationMethod.BYZANTINE_ROBUST, AggregationMethod.MEAN}:
            raise _error(
                "method: expected byzantine_robust or mean with differential_privacy, which "
                f"clips, adds up and adds noise, got {self.method.value}"
            )
        if "use_bitdelta" in self.model_fields_set and self.use_bitdelta:
            raise _error(
                "use_bitdelta: expected false with differential_privacy: noise drowns signs"
            )
        if self.reward_rule == "published":
            raise _error(
                "reward_rule: expected weight with differential_privacy, whose points are equal "
                "parts, got published, which needs qualities"
            )
        for name in ("byzantine_threshold", "quality_validator"):
            if name in self.model_fields_set:
                raise _error(
                    f"{name}: expected none with differential_privacy, which selects nobody"
                )
        if self.privacy_delta * self.max_contributors >= 1:
            raise _error(
                f"privacy_delta: expected less than 1 / {self.max_contributors}, the most "
                f"contributors, got {self.privacy_delta:g}"
            )

    def _check_share(self) -> None:
        """Refuses a share that the rule withstands for no number of contributors."""
        most = 0.25 if self.method is AggregationMethod.BULYAN else 0.5
        if self.byzantine_threshold >= most:
            raise _error(
                f"byzantine_threshold: expected less than {most} for {self.method.value}, got "
                f"{self.byzantine_threshold}"
            )

    def asked_f(self, n: int) -> int:
        """Returns how many malicious ones of n contributors `byzantine_threshold` asks for."""
        return int(self.byzantine_threshold * n + 1e-9)

    def rule(self, n: int) -> Rule:
        """Returns the rule for n contributors.

        With two, or wherever no f above 0 fits, robust rules are means and resist nobody.

        Raises:
            InputError: the rule cannot take that number.
        """
        if n < 3 and self.method is AggregationMethod.BYZANTINE_ROBUST:
            return rule_for(AggregationMethod.MEAN, n)
        if self.method is _PERCENT_OF:
            count = int(self.trim_percent * n + 1e-9)
        else:
            count = default_f(n, self.byzantine_threshold)
        return rule_for(self.method, n, min(count, most_f(self.method, n)))

    @property
    def needs(self) -> str:
        """What the rule weighs contributions by beside themselves; empty if nothing."""
        return takes_given(self.method)


def why_no_share(method: AggregationMethod) -> str:
    """Returns why a share of malicious contributors would do nothing; empty if it acts."""
    if method is _PERCENT_OF:
        return f"on {method.value}, whose share is trim_percent"
    return "" if takes_f(method) else f"on {method.value}, which withstands no malicious one"


def _error(text: str) -> PydanticCustomError:
    return PydanticCustomError("sentence", "{text}", {"text": text})
