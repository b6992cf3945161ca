"""Which lessons of others are kept: those that enough trusted keys measured and none found bad.

Kept at `least` keys, a median effect above 0, and no interval that is below 0 as a whole. The rule
counts keys, not records: of a key that measured a lesson more than once the record of most tasks
counts, and each that is clearly below 0. The rule keeps harm out, not idleness: of lessons that
change nothing it keeps a quarter at two keys, about 4 of 10 at three or five. `clear` asks for
more.

Up to half of the keys, if they lie, raise no effect above the largest that another key found: of an
even number the median is the lower of the two in the middle, and no weighing lets a narrow interval
speak louder than others. One of two can still keep a lesson out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import median_high, median_low

from zoo.gym.experience.library.item import Item
from zoo.gym.experience.sharing.limits import limited
from zoo.gym.experience.sharing.measurement import Measurement
from zoo.gym.experience.sharing.quarantine import suspicion
from zoo.gym.signing import PublicKey

_NORMAL_95, _NORMAL_975 = 1.6448536269514722, 1.959963984540054
"""Quantiles of the normal distribution, as numbers: logarithms differ from machine to machine."""

_OF_MEDIAN = 1.2533141373155003
"""How much wider the error of a median is than that of a mean, at most: sqrt(pi / 2)."""

_UNSEEN = 3.0
"""Of n tasks that all show the same, 3 in n others may not, at 95 % (the rule of three)."""


@dataclass(frozen=True)
class Judged:
    """What is known of a lesson.

    Attributes:
        item: the lesson; with the evidence if it is kept.
        signers: the names of the trusted keys that measured it.
        effect: the median of their effects, of two in the middle the lower; None without one.
        low: the lower end of all their effects together: above 0, the gain is clear at 5 %.
        why: why it is not kept; empty if it is.
    """

    item: Item
    signers: tuple[str, ...]
    effect: float | None
    low: float | None
    why: str

    @property
    def kept(self) -> bool:
        """Whether it is kept."""
        return not self.why


def judge(
    items: Iterable[Item],
    records: Sequence[tuple[PublicKey, Measurement]],
    names: Mapping[PublicKey, str],
    least: int,
    released: Iterable[str] = (),
    *,
    clear: bool = False,
    apart: Collection[PublicKey] = (),
    rivals: Collection[PublicKey] = (),
) -> list[Judged]:
    """Returns what the records of trusted keys say of each lesson.

    Args:
        items: the candidates.
        records: what was measured, by anybody, in any order.
        names: the trusted keys and the user's own, with their names.
        least: by how many of them a lesson must have been measured.
        released: the ids of lessons that are kept although they look like orders.
        clear: whether all effects together must be above 0 at a level of 5 %.
        apart: trusted keys that may not speak for these lessons, which are theirs: only the harm
            that they measured counts.
        rivals: trusted keys with lessons beside these, which gain if these are not kept: harm that
            one of them measured counts if another key measured harm, too.
    """
    known = set(released)
    counted = [(key, one) for key, one in records if key in names]
    return [
        _judge(
            item,
            [(key, one) for key, one in counted if one.text == item.text],
            names,
            least,
            is_free=item.id in known,
            clear=clear,
            apart=apart,
            rivals=set(rivals) - set(apart),
        )
        for item in items
    ]


def crowded_out(
    judged: Sequence[Judged], known: Sequence[Item], most: int, released: Iterable[str] = ()
) -> list[Judged]:
    """Returns what is judged with those left out that say the same as others, or are too many.

    Of equal ones, and of one author, those with the largest effects stay.

    Args:
        judged: what was judged.
        known: the lessons that the library has besides; one that is judged anew counts as new.
        most: how many of one author it may have.
        released: the ids of lessons that are kept although another says the same.
    """
    best = sorted(
        (one for one in judged if one.kept), key=lambda one: (-(one.effect or 0.0), one.item.id)
    )
    ids = {one.item.id for one in best}
    others = [item for item in known if item.id not in ids]
    _, left_out = limited([one.item for one in best], others, most, released)
    why = {one.item.id: one.why for one in left_out}
    return [replace(one, why=one.why or why.get(one.item.id, "")) for one in judged]


def _judge(
    item: Item,
    records: Sequence[tuple[PublicKey, Measurement]],
    names: Mapping[PublicKey, str],
    least: int,
    *,
    is_free: bool,
    clear: bool,
    apart: Collection[PublicKey],
    rivals: Collection[PublicKey],
) -> Judged:
    best: dict[PublicKey, Measurement] = {}
    for key, one in records:
        if key not in apart and (key not in best or _rank(one) > _rank(best[key])):
            best[key] = one
    signers = tuple(sorted(names[key] for key in best))
    effect = round(median_low(one.effect for one in best.values()), 6) if best else None
    against = {key for key, one in records if one.high < 0}
    is_alone = len(against) == 1 and against.issubset(rivals)
    harmed = [] if is_alone else sorted(names[key] for key in against)
    low = lower_end(list(best.values()))
    why = _why_not(item, len(best), effect, harmed, least, is_free=is_free)
    if not why and clear and not (low or 0.0) > 0:
        why = "no clear gain by all measurements together"
    if not why:
        found = {"keys": len(best), "least_keys": least, "effect": effect, "low": low}
        item = replace(item, evidence=found)
    return Judged(item, signers, effect, low, why)


def lower_end(records: Sequence[Measurement]) -> float | None:
    """Returns the lower end of the median effect at 5 %, one-sided; None without records.

    The error of one effect is that of which a normal distribution has a 95 % interval as wide as
    the median of the records' intervals, of two in the middle the wider. An interval of n tasks
    counts as 3 / n wide at least: none is excluded by its width, as equal differences have an
    interval without one. All is of IEEE 754, so that every machine finds the same.
    """
    if not records:
        return None
    width = median_high(max(one.high - one.low, _UNSEEN / one.tasks) for one in records)
    error = width / (2 * _NORMAL_975) / sqrt(len(records))
    if len(records) > 2:
        error *= _OF_MEDIAN
    return round(median_low(one.effect for one in records) - _NORMAL_95 * error, 6)


def _rank(one: Measurement) -> tuple[int, float, float, str]:
    """Orders records of a key: by tasks; of equal ones the less favourable counts."""
    return one.tasks, -one.effect, -one.high, one.model


def _why_not(
    item: Item,
    count: int,
    effect: float | None,
    harmed: Sequence[str],
    least: int,
    *,
    is_free: bool,
) -> str:
    if not is_free and (found := suspicion(item.text)):
        return f"in quarantine: it has {found}"
    if harmed:
        return f"harmful by the measurement of {', '.join(harmed)}"
    if count < least:
        return f"measured by {count} of at least {least} keys"
    if effect is None or effect <= 0:
        return f"a median effect of {effect:+.3f}"
    return ""
