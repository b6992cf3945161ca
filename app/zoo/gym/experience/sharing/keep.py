"""Which lessons of others are kept: those that enough trusted keys measured, none as harmful.

A lesson is kept with `least` keys, a median effect above 0, and no interval entirely below 0. The
rule counts keys, not records: if a key measured a lesson more than once, its record of most tasks
counts, and each that is clearly below 0. The rule keeps out harm, not useless lessons: of those
that change nothing it keeps a quarter at two keys, about 4 of 10 at three or five. `clear` requires
more.

Up to half of the keys, if they lie, cannot raise an effect above the largest that another key
found: of an even number the median is the lower of the two in the middle, and no weighting gives a
narrow interval more influence. One of two can still keep a lesson out.
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
"""Quantiles of the normal distribution, as numbers: logarithms differ between machines."""

_OF_MEDIAN = 1.2533141373155003
"""How much wider the error of a median is than that of a mean, at most: sqrt(pi / 2)."""

_UNSEEN = 3.0
"""Of n tasks that all show the same, 3 in n others may not, at 95 % (the rule of three)."""


@dataclass(frozen=True)
class Judged:
    """A lesson and the measurements of it.

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
    released: Collection[str] = (),
    *,
    clear: bool = False,
    apart: Collection[PublicKey] = (),
    rivals: Collection[PublicKey] = (),
) -> list[Judged]:
    """Judges each lesson by the records of trusted keys.

    Args:
        items: the candidates.
        records: measurements by anybody, in any order.
        names: the trusted keys and the user's own, with their names.
        least: how many of them must have measured a lesson.
        released: the ids of lessons that are kept although they look like orders.
        clear: whether all effects together must be above 0 at a level of 5 %.
        apart: trusted keys that may not speak for these lessons, which are theirs: only the harm
            that they measured counts.
        rivals: trusted keys with lessons beside these, which gain if these are not kept: harm that
            one of them measured counts if another key measured harm, too.
    """
    trusted = [(key, record) for key, record in records if key in names]
    judged: list[Judged] = []
    for item in items:
        best: dict[PublicKey, Measurement] = {}
        against: set[PublicKey] = set()
        for key, record in trusted:
            if record.text != item.text:
                continue
            if key not in apart and (key not in best or _rank(record) > _rank(best[key])):
                best[key] = record
            if record.high < 0:
                against.add(key)
        if len(against) == 1 and against <= {*rivals} - {*apart}:
            against.clear()
        effect = round(median_low(r.effect for r in best.values()), 6) if best else None
        low = lower_end(list(best.values()))
        why = ""
        if item.id not in released and (suspicious := suspicion(item.text)):
            why = f"in quarantine: it has {suspicious}"
        elif against:
            why = f"harmful by the measurement of {', '.join(sorted(names[k] for k in against))}"
        elif len(best) < least:
            why = f"measured by {len(best)} of at least {least} keys"
        elif effect is None or effect <= 0:
            why = f"a median effect of {effect:+.3f}"
        elif clear and not (low or 0.0) > 0:
            why = "no clear gain by all measurements together"
        else:
            evidence = {"keys": len(best), "least_keys": least, "effect": effect, "low": low}
            item = replace(item, evidence=evidence)  # noqa: PLW2901
        signers = tuple(sorted(names[key] for key in best))
        judged.append(Judged(item, signers, effect, low, why))
    return judged


def crowded_out(
    judged: Sequence[Judged], library: Sequence[Item], most: int, released: Collection[str] = ()
) -> list[Judged]:
    """Returns judged lessons with those left out that say the same as others, or are too many.

    Of equal ones, and of one author, those with the largest effects stay.

    `library` has the other lessons; one that is judged anew counts as new.
    """
    best = sorted((j for j in judged if j.kept), key=lambda j: (-(j.effect or 0.0), j.item.id))
    ids = {lesson.item.id for lesson in best}
    rest = [item for item in library if item.id not in ids]
    _, left_out = limited([lesson.item for lesson in best], rest, most, released)
    why = {lesson.item.id: lesson.why for lesson in left_out}
    return [replace(lesson, why=lesson.why or why.get(lesson.item.id, "")) for lesson in judged]


def lower_end(records: Sequence[Measurement]) -> float | None:
    """Returns the lower end of the median effect at 5 %, one-sided; None without records.

    The error of one effect is that of a normal distribution with a 95 % interval as wide as the
    median of the records' intervals, of two in the middle the wider. An interval of n tasks counts
    as at least 3 / n wide: none is excluded by its width, because equal differences have an
    interval of width 0. All operations are of IEEE 754, so every machine finds the same.
    """
    if not records:
        return None
    width = median_high(max(r.high - r.low, _UNSEEN / r.tasks) for r in records)
    error = width / (2 * _NORMAL_975) / sqrt(len(records))
    if len(records) > 2:
        error *= _OF_MEDIAN
    return round(median_low(r.effect for r in records) - _NORMAL_95 * error, 6)


def _rank(record: Measurement) -> tuple[int, float, float, str]:
    """Orders records of a key: by tasks; of equal ones the less favourable counts."""
    return record.tasks, -record.effect, -record.high, record.model
