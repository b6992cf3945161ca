"""The names of the aggregation rules, and how many contributors each of them needs."""

from dataclasses import dataclass
from enum import StrEnum

from zoo.gym.errors import InputError


class AggregationMethod(StrEnum):
    """An aggregation rule; `BYZANTINE_ROBUST` is nearest-neighbour mixing, then Multi-Krum."""

    BYZANTINE_ROBUST = "byzantine_robust"
    MEAN = "mean"
    FEDERATED_AVERAGE = "federated_average"
    WEIGHTED_MEAN = "weighted_mean"
    TRIMMED_MEAN = "trimmed_mean"
    MEDIAN = "median"
    MAJORITY = "majority"
    KRUM = "krum"
    MULTI_KRUM = "multi_krum"
    BULYAN = "bulyan"
    GEOMETRIC_MEDIAN = "geometric_median"
    NORM_CLIP = "norm_clip"


_TABLE = (
    (AggregationMethod.BYZANTINE_ROBUST, (2, 3), True, False),
    (AggregationMethod.KRUM, (2, 3), True, False),
    (AggregationMethod.MULTI_KRUM, (2, 3), True, False),
    (AggregationMethod.BULYAN, (4, 3), True, True),
    (AggregationMethod.TRIMMED_MEAN, (2, 1), False, True),
    (AggregationMethod.MEDIAN, (2, 1), False, True),
    (AggregationMethod.MAJORITY, (2, 1), False, True),
    (AggregationMethod.GEOMETRIC_MEDIAN, (2, 1), True, False),
    (AggregationMethod.NORM_CLIP, None, True, False),
)
"""(a, b) of a rule that takes f: it needs n >= a f + b contributors; and whether it compares
contributions by their scalar products, and works column by column. Means do none of these."""

_NEEDS = {method: needs for method, needs, _, _ in _TABLE if needs}
BY_DISTANCE = frozenset(method for method, _, by_distance, _ in _TABLE if by_distance)
BY_COLUMNS = frozenset(method for method, _, _, by_columns in _TABLE if by_columns)
"""Rules whose result is no weighted mean."""

_GIVEN = {
    AggregationMethod.FEDERATED_AVERAGE: "numbers of examples",
    AggregationMethod.WEIGHTED_MEAN: "reputations",
}


@dataclass(frozen=True)
class Rule:
    """A rule with its parameters, checked by `check`.

    Attributes:
        f: how many contributors may be malicious; 0 for a mean.
    """

    method: AggregationMethod
    f: int = 0

    @property
    def mixes(self) -> bool:
        """Whether each contribution is first replaced by the mean of its n - f nearest.

        That is nearest-neighbour mixing (NNM, arXiv:2302.01772).
        """
        return self.method is AggregationMethod.BYZANTINE_ROBUST

    def check(self, n: int) -> None:
        """Refuses a number of contributors or of malicious ones that the rule cannot take.

        Raises:
            InputError: too few contributors, or an f that the rule does not use.
        """
        if n < 1:
            raise InputError(
                f"contributors: expected at least 1, got {n}", code="rounds.no_contributors"
            )
        if self.f < 0:
            raise InputError(f"f: expected at least 0, got {self.f}", code="rounds.f_range")
        if not takes_f(self.method) and self.f:
            raise InputError(
                f"f: expected 0 for {self.method.value}, got {self.f}",
                hint="this rule resists no malicious contributor; choose another rule",
                code="rounds.f_unused",
            )
        per_f, more = _NEEDS.get(self.method, (0, 1))
        if n < per_f * self.f + more:
            most = max(0, (n - more) // per_f)
            raise InputError(
                f"{self.method.value} with f = {self.f}: expected at least {per_f} f + {more} = "
                f"{per_f * self.f + more} contributors, got {n}",
                hint=f"with {n} contributors f is at most {most}"
                if n >= more
                else f"this rule needs at least {more} contributors",
                code="rounds.few_contributors",
            )


def rule_for(method: AggregationMethod, n: int, f: int | None = None) -> Rule:
    """Returns a rule for n contributors, checked.

    Args:
        f: None withstands `default_f`, or as many as the rule can, 0 for a mean.

    Raises:
        InputError: as `Rule.check`.
    """
    rule = Rule(method, min(default_f(n), most_f(method, n)) if f is None else f)
    rule.check(n)
    return rule


def most_f(method: AggregationMethod, n: int) -> int:
    """Returns the most malicious ones of n contributors that a rule withstands; 0 for a mean."""
    per_f, more = _NEEDS.get(method, (0, 1))
    return max(0, n - more) // per_f if per_f else 0


def takes_f(method: AggregationMethod) -> bool:
    """Returns whether the rule depends on the number of malicious contributors."""
    return method in _NEEDS


def takes_given(method: AggregationMethod) -> str:
    """Returns what a rule weighs contributions by beside themselves; empty if it does not."""
    return _GIVEN.get(method, "")


def default_f(n: int, share: float = 0.3) -> int:
    """Returns how many of n contributors a round withstands by default.

    The share of n, rounded down, but no more than Krum can take: n >= 2 f + 3.
    """
    return max(0, min(int(share * n + 1e-9), (n - 3) // 2))
