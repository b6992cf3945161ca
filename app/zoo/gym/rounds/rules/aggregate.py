"""From contributions to one result: which rule sees what, and in which order.

Rules of weights see the Gram matrix alone, and one pass over the contributions makes their mean.
Rules of columns (trimmed mean, median, majority, Bulyan's last step) see each shard. What a round
publishes follows from the contributions alone: in digest order, with
the core's integers and fixed orders, the same bytes everywhere.

Contributions that are far too long or too short are refused before any rule sees them: all products
share one unit, so that a huge one would coarsen the others. Less than half of the contributors are
malicious, so that the lower median of the norms is no larger than an honest one's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zoo.gym.errors import InputError
from zoo.gym.rounds.arrays import F32, Gram
from zoo.gym.rounds.encodings import Contributions, Piece, Rows, Signs
from zoo.gym.rounds.rules.method import (
    BY_COLUMNS,
    BY_DISTANCE,
    AggregationMethod,
    Rule,
    takes_given,
)
from zoo.gym.rounds.rules.weights import Weighing, weigh

LONGEST = 256
"""A norm above the median times this is refused."""

SHORTEST = 1024
"""A norm below the median divided by this is refused."""

TOO_SHORT = f"expected a change of some size, got less than 1 / {SHORTEST} of the median"


def undersized(gram: Gram) -> list[int]:
    """Returns those who changed nearly nothing, given their exact scalar products, [n, n, 2]."""
    norms, middle = _norms(gram)
    return [row for row, norm in enumerate(norms) if norm * SHORTEST**2 < middle]


def _norms(gram: Gram) -> tuple[list[int], int]:
    import numpy as np

    from zoo.core.gram import exact_products

    diagonal = np.ascontiguousarray(gram[np.arange(len(gram)), np.arange(len(gram))])[None]
    norms = exact_products(diagonal)[0]
    return norms, sorted(norms)[(len(norms) - 1) // 2]


@dataclass(frozen=True)
class Selection:
    """What a rule decided before any column is combined.

    Attributes:
        rule: the rule; f is less by the number of refused contributions.
        kept: the contributors that the rule saw, in the order of their digests.
        refused: the reason for each other one.
        gram: of all contributors; None if the rule needs none.
        weighing: the weights of those kept; None for rules of columns.
        rows: for Bulyan, the contributions that it took.
    """

    rule: Rule
    kept: list[int]
    refused: dict[int, str]
    gram: "Gram | None"
    weighing: Weighing | None
    rows: list[int] | None = None

    @property
    def weights(self) -> list[float] | None:
        """The weight of each contribution, 0 for one that the rule refused; None by columns."""
        if self.weighing is None:
            return None
        weights = [0.0] * (len(self.kept) + len(self.refused))
        for row, weight in zip(self.kept, self.weighing.weights, strict=True):
            weights[row] = float(weight)
        return weights

    @property
    def shares(self) -> list[float]:
        """The part of each contribution in the result; equal ones of those kept by columns."""
        weights, weighing = self.weights, self.weighing
        if weights is None or weighing is None:
            count = len(self.kept) + len(self.refused)
            return [(row in self.kept) / len(self.kept) for row in range(count)]
        total = sum(weights) + float(weighing.rest)
        return [weight / total for weight in weights]


def select(
    rule: Rule,
    contributions: Contributions,
    claims: "F32 | None" = None,
    *,
    gram: "Gram | None" = None,
    threads: int | None = None,
) -> Selection:
    """Returns which contributions count, and how much.

    Args:
        claims: [n], numbers of examples or reputations, for the rules that take them.
        gram: their scalar products, if they are known already.

    Raises:
        InputError: a rule that does not fit, or a contribution with a value or scale that no sum
            survives (with tensor and contributor).
    """
    rule.check(contributions.count)
    _check_given(rule, contributions.count, claims)
    if rule.method is AggregationMethod.MAJORITY and not isinstance(contributions, Signs):
        raise InputError(
            "majority: expected contributions in the form signs, got another form",
            code="rounds.other_form",
        )
    if rule.method not in BY_DISTANCE:
        count, by_columns = contributions.count, rule.method in BY_COLUMNS
        weighing = None if by_columns else weigh(rule, None, count, claims)
        return Selection(rule, list(range(count)), {}, gram, weighing)
    products = contributions.gram(threads=threads) if gram is None else gram
    return _by_gram(rule, products, threads)


def _by_gram(rule: Rule, gram: Gram, threads: int | None) -> Selection:
    from zoo.core import bulyan_order, whole_gram

    norms, middle = _norms(gram)
    refused = [row for row, norm in enumerate(norms) if middle and norm > LONGEST**2 * middle]
    rows = [row for row in range(len(gram)) if row not in set(refused)]
    rule = replace(rule, f=max(0, rule.f - len(refused)))
    rule.check(len(rows))
    integers = whole_gram(gram_of(gram, rows))
    reason = f"its norm is more than {LONGEST} times the median"
    selection = Selection(rule, rows, dict.fromkeys(refused, reason), gram, None)
    if rule.method not in BY_COLUMNS:
        return replace(selection, weighing=weigh(rule, integers, len(rows), threads=threads))
    if rule.method is AggregationMethod.BULYAN:
        selection = replace(selection, rows=sorted(bulyan_order(integers, rule.f).tolist()))
    return selection


def combine(
    selection: Selection, contributions: Contributions, *, threads: int | None = None
) -> Iterator[Piece]:
    """Yields the result, shard by shard.

    Args:
        contributions: all of them, the refused among them.
    """
    seen = contributions.take(selection.kept)
    if selection.weighing is not None:
        weighing = selection.weighing
        yield from seen.mean(weighing.weights, rest=weighing.rest, threads=threads)
    elif selection.rule.method is AggregationMethod.MAJORITY and isinstance(seen, Signs):
        yield from seen.majority(threads=threads)
    else:
        for tensor, start, rows in seen.columns(threads=threads):
            yield Piece(tensor, start, _by_columns(selection, rows, threads))


def _by_columns(selection: Selection, rows: Rows, threads: int | None) -> F32:
    from zoo.core import median, near_median, trimmed_mean

    f = selection.rule.f
    match selection.rule.method:
        case AggregationMethod.MEDIAN:
            return median(rows, threads=threads)
        case AggregationMethod.BULYAN:
            taken = [rows[row] for row in selection.rows or ()]
            return near_median(taken, len(taken) - 2 * f, threads=threads)
        case _:
            return trimmed_mean(rows, f, threads=threads)


def gram_of(gram: Gram, rows: list[int]) -> Gram:
    """Returns the scalar products of some contributions, [k, k, 2]."""
    import numpy as np

    if len(rows) == len(gram):
        return gram
    return np.ascontiguousarray(gram[np.ix_(rows, rows)])


def _check_given(rule: Rule, n: int, claims: "F32 | None") -> None:
    what = takes_given(rule.method)
    if claims is not None and not what:
        raise InputError(
            f"weights: expected none for {rule.method.value}, got {len(claims)}",
            code="rounds.weights_unused",
        )
    if claims is None and what:
        raise InputError(
            f"{rule.method.value}: expected the {what} of {n} contributors, got none",
            code="rounds.weights_missing",
        )
    if claims is not None and len(claims) != n:
        raise InputError(f"{what}: expected {n}, got {len(claims)}", code="rounds.weights_count")
