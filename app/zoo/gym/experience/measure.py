"""Measures lessons on tasks of the user's: one library against another, or lesson by lesson."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.answering import answering
from zoo.gym.experience.learning.answers import Answer, Answers, slots
from zoo.gym.experience.learning.learn import Tested, compared, tokens_added
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.learning.signflip import LEVEL, sign_flip_p, tasks_needed
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.session import lesson_of
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.rewards.reward import Task


@dataclass(frozen=True)
class Measured:
    """What a comparison found.

    Attributes:
        verdict: `accepted`, `rejected`, or `not enough` for a gain that is not clear.
        effect: the mean difference of the rewards.
        interval: its 95 % interval; infinite with too few tasks for one.
        p: the probability of such a gain without an effect.
        tasks: how many were compared.
        needed: how many tasks would show a gain of this size; None without a gain.
        spent_usd: what the calls cost.
        unscored: answers without a reward, with the one and the other: more of the other, and
            nothing is accepted.
        tested: the same as a test has it, with both mean rewards.
    """

    verdict: str
    effect: float
    interval: tuple[float, float]
    p: float
    tasks: int
    needed: int | None
    spent_usd: float
    unscored: tuple[int, int]
    tested: Tested


@dataclass(frozen=True)
class Each:
    """What one lesson adds.

    Attributes:
        item: the lesson.
        found: its effect; None if no pair of answers has rewards.
    """

    item: Item
    found: Measured | None


def measure(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    before: Library,
    after: Library,
    tell: Callable[[str], None],
) -> Measured:
    """Returns how much better answers are with one library than with another.

    One look at all tasks, so the level is 5 %.

    Raises:
        InputError: both libraries have the same lessons, or no task has rewards for both.
        GymError: see `answering`.
    """
    if before.text == after.text:
        raise InputError("library: expected other lessons than it is compared with, got the same")
    what = {"gate": [before.text, after.text]}
    with answering(config, tasks, what, tell) as answers:
        pairs, tokens = _pairs(answers, config, tasks, [before, after], look=1)
        if not pairs.rewards:
            raise InputError(
                f"tasks: expected rewards for both libraries, got none: {answers.reason}"
            )
        return _measured(pairs, tokens, answers.caller.journal.spent.usd)


def store_evidence(
    given: store.Stored, config: ExperienceConfig, found: Measured
) -> store.Stored | None:
    """Stores what a gate showed of a version as a new one, whose parent it is.

    The new version is used if the measured one was. Nothing is stored if it was no version but a
    file, or is proven for the model already and the gate shows less.

    Args:
        given: the library that was compared with none.
        config: the model and how it was measured.
        found: what was found; accepted.

    Raises:
        StorageError: it cannot be written.
    """
    known = given.library
    is_less = found.tested.verdict != "proven" and known.evidence.get("verdict") == "proven"
    if not given.version or (is_less and known.measured_with == config.model):
        return None
    marks: dict[str, object] = {"by": "gate", "model": config.model, **lesson_of(config).marks}
    evidence = found.tested.as_evidence() | marks
    used = store.current(given.name)
    saved = store.save(given.name, replace(known, parent=given.digest, evidence=evidence))
    if used != given.version:
        store.use(given.name, used)
    return saved


def measure_each(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    items: Sequence[Item],
    beside: Library,
    tell: Callable[[str], None],
) -> list[Each]:
    """Returns what each lesson adds to a library, by itself; the library's answers are drawn once.

    Raises:
        InputError: there is no lesson, or the library with one would be too large.
        GymError: see `answering`.
    """
    if not items:
        raise InputError("library: expected lessons, got none")
    arms = [_arms(beside, item) for item in items]
    what = {"each": [beside.text, *(item.text for item in items)]}
    found: list[Each] = []
    with answering(config, tasks, what, tell) as answers:
        for look, (item, arm) in enumerate(zip(items, arms, strict=True), 1):
            pairs, tokens = _pairs(answers, config, tasks, arm, look)
            spent = answers.caller.journal.spent.usd
            found.append(Each(item, _measured(pairs, tokens, spent) if pairs.rewards else None))
    return found


def _arms(beside: Library, item: Item) -> list[Library]:
    """Returns a library without a lesson and with it."""
    without = beside.changed([item.id], ())
    return [without, without.changed((), [item])]


def _pairs(
    answers: Answers,
    config: ExperienceConfig,
    tasks: Sequence[Task],
    libraries: Sequence[Library],
    look: int,
) -> tuple[Pairs, int]:
    """Returns the rewards with two libraries, and the tokens that the second adds to a prompt.

    Equal first libraries are asked for once in all looks.
    """
    how = Sampling(config.max_new_tokens, config.temperature_eval)
    drawn = [task for task in tasks for _ in range(config.gate_draws)]
    arms: list[list[Answer]] = []
    for number, library in zip((0, look), libraries, strict=True):
        where = slots("gate", 0, number, range(len(tasks)), config.gate_draws)
        arms.append(answers.draw(drawn, where, library, how))
    pairs = Pairs()
    pairs.add(tasks, arms[0], arms[1], config.gate_draws)
    return pairs, tokens_added(arms[0], arms[1], libraries[1])


def _measured(pairs: Pairs, tokens: int, spent_usd: float) -> Measured:
    differences = pairs.differences
    effect, p = fmean(differences), sign_flip_p(differences)
    is_clear = p <= LEVEL and pairs.unscored[1] <= pairs.unscored[0]
    verdict = "accepted" if is_clear else "not enough" if effect > 0 else "rejected"
    tested = compared(pairs.means, tokens, pairs.unscored)
    needed = tasks_needed(differences, LEVEL) if verdict == "not enough" else None
    return Measured(
        verdict,
        tested.effect,
        tested.interval,
        p,
        len(differences),
        needed,
        round(spent_usd, 6),
        pairs.unscored,
        tested,
    )
