"""What a published report says of each contribution: its weight in the result, and its points.

The report is shown as it is published; `zoo-gym round verify` computes it again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.errors import InputError, NotAvailableError

if TYPE_CHECKING:
    from zoo.gym.rounds.life.opening import Opened


@dataclass(frozen=True)
class Share:
    """What became of one contribution.

    Attributes:
        weight: its share of the result, 0 to 1; None for rules that work column by column.
        points: of the pool.
    """

    weight: float | None
    points: int | None

    @property
    def is_left_out(self) -> bool:
        """Whether the rule gave it no weight."""
        return self.weight == 0

    def __str__(self) -> str:
        parts = [] if self.weight is None else [f"weight {self.weight:.3g}"]
        if self.points is not None and not self.is_left_out:
            parts.append(f"{self.points} points")
        return ", ".join(parts)


def shares_of(opened: "Opened") -> Mapping[str, Share]:
    """Returns the share of each contribution of a published round, by key as text.

    Empty without a result, and where the report is missing or damaged, which `verify` shows.
    """
    from zoo.gym.rounds.compute.checks import published_report

    if opened.state.result is None:
        return {}
    with suppress(InputError, NotAvailableError):
        return _read(published_report(opened))
    return {}


def _read(report: Mapping[str, Any]) -> Mapping[str, Share]:
    keys = [str(one["key"]) for one in report["contributions"]]
    weights = _weights(report.get("weights"), report.get("rest"), len(keys))
    rewards = report.get("rewards")
    points = cast("dict[str, Any]", rewards).get("points") if isinstance(rewards, dict) else None
    paid = cast("dict[str, Any]", points) if isinstance(points, dict) else {}
    found = [paid.get(key, 0) if paid else None for key in keys]
    whole = [one if _is_number(one) else None for one in found]
    return {key: Share(weight, one) for key, weight, one in zip(keys, weights, whole, strict=True)}


def _weights(found: object, rest: object, count: int) -> list[float | None]:
    """Returns weights that add up to 1 with the rest; None each if there are none."""
    numbers = found if isinstance(found, list) else []
    others = rest if _is_number(rest) else 0
    if len(numbers) != count or not all(map(_is_number, numbers)):
        return [None] * count
    total = sum(numbers) + cast("float", others)
    return [one / total for one in numbers] if total > 0 else [None] * count


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and 0 <= cast("float", value) < 2**63
