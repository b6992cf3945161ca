"""What a step learns from: rows in tokens, in units that stay together in every batch."""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from zoo.gym.data.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_EXTRAS: "Mapping[str, NDArray[Any]]" = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Example:
    """A row in tokens.

    Attributes:
        ids: token ids, int64 [T].
        mask: the tokens that are learned, bool [T]; never the first, which nothing predicts.
        source: `file:line` of its row, or of the text that a window starts in.
        truncated: whether its end was cut off.
        extras: what an objective reads beside them: an array [T], or a number, by name.
        record: of a prompt: its row, which a reward reads; None for other rows.
    """

    ids: "NDArray[np.int64]"
    mask: "NDArray[np.bool_]"
    source: str
    truncated: bool
    extras: "Mapping[str, NDArray[Any]]" = field(default_factory=lambda: NO_EXTRAS)
    record: Record | None = None


RATING = "rating"
"""The name of a rating among a row's extras: 1 for a good answer, -1 for a bad one."""

MARGIN = "margin"
"""The name of a pair's margin among the extras of both rows; see `Record.margin`."""

WEIGHT = "row_weight"
"""The name of a row's weight among the extras of its answers; see `Record.weight`."""


def rated(row: Example, *, good: bool) -> Example:
    """Returns a row with a rating."""
    return with_extra(row, RATING, 1.0 if good else -1.0)


def weighted(row: Example, weight: float) -> Example:
    """Returns a row with the weight of its loss."""
    return with_extra(row, WEIGHT, weight)


def weight_of(row: Example) -> float:
    """Returns the weight of a row's loss."""
    return float(row.extras.get(WEIGHT, 1.0))


def with_extra(row: Example, name: str, value: "NDArray[Any] | float") -> Example:
    """Returns a row with one more extra; the others are not read, because they may be lazy."""
    import numpy as np

    array = value if isinstance(value, np.ndarray) else np.array(value, dtype=np.float32)
    extras = ChainMap({name: array}, cast("dict[str, NDArray[Any]]", row.extras))
    return replace(row, extras=extras)


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that stay together in a micro-batch: one row, a pair (better first) or a group."""

    rows: tuple[Example, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("unit: expected at least one row, got none")

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(row.ids) for row in self.rows)

    @property
    def learned_tokens(self) -> int:
        """Learned tokens of all rows."""
        return sum(int(row.mask.sum()) for row in self.rows)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)

    @property
    def shared_tokens(self) -> int:
        """The number of tokens that all rows begin with; 0 for a single row."""
        import numpy as np

        if len(self.rows) == 1:
            return 0
        shortest = min(len(row.ids) for row in self.rows)
        first = self.rows[0].ids[:shortest]
        same = [np.equal(row.ids[:shortest], first) for row in self.rows[1:]]
        return int(np.logical_and.reduce(same).cumprod().sum())

    @property
    def width(self) -> int:
        """Tokens that the unit takes in a batch of its own, padding included."""
        return len(self.rows) * self.longest


def alone(examples: Iterable[Example]) -> tuple[Unit, ...]:
    """Returns each row as a unit of its own."""
    return tuple(Unit((example,)) for example in examples)


def rows_of(units: Iterable[Unit]) -> tuple[Example, ...]:
    """Returns the rows of all units, in order."""
    return tuple(row for unit in units for row in unit.rows)
