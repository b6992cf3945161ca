"""Drops lessons that do not help: each is left out on the tasks that are nearest to it.

Nearest are the tasks that share most words with those that the lesson was learned from, as far as
they are among the given ones, else with the lesson itself. What fits no task here may help
elsewhere, so prune on tasks like those that the library is for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zoo.backends.sampling import Sampling
from zoo.gym.errors import InputError
from zoo.gym.experience.answering import answering
from zoo.gym.experience.learning.answers import Answer, Answers, slots
from zoo.gym.experience.learning.nearest import nearest
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.learning.retire import origin_text
from zoo.gym.experience.learning.split import contents, source_of
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import Library
from zoo.gym.experience.settings import ExperienceConfig
from zoo.gym.rewards.reward import Task


@dataclass(frozen=True)
class Left:
    """What leaving a lesson out showed.

    Attributes:
        item: the lesson.
        effect: the mean reward with it, less that without it.
        tasks: how many were compared.
        kept: whether it stays.
        reason: why nothing could be compared: it stays then.
    """

    item: Item
    effect: float
    tasks: int
    kept: bool
    reason: str = ""


@dataclass(frozen=True)
class Pruned:
    """A library with fewer lessons.

    Attributes:
        library: what is left.
        lessons: what was found of each lesson.
        spent_usd: what the calls cost.
    """

    library: Library
    lessons: list[Left]
    spent_usd: float


def prune(
    config: ExperienceConfig,
    tasks: Sequence[Task],
    library: Library,
    near: int,
    tell: Callable[[str], None],
    origins: Sequence[Task] = (),
) -> Pruned:
    """Leaves each lesson out in turn and drops those without which answers are as good.

    Pinned lessons stay, unmeasured. The tasks are among those that the library has `seen`.

    Args:
        config: the model, the reward and how answers are drawn: `gate_draws` to each task.
        tasks: tasks like those that the library is for.
        library: the lessons.
        near: how many tasks each lesson is compared on.
        tell: gets notices.
        origins: tasks that lessons were learned from: they are not answered, but near ones are.

    Raises:
        InputError: there is no lesson, or there are more tasks than a library remembers.
        GymError: see `answering`.
    """
    if not library.items:
        raise InputError("library: expected lessons, got none")
    found: list[Left] = []
    rest = replace(library, seen=(*library.seen, *map(source_of, tasks)))  # these decide
    with answering(config, tasks, {"prune": library.text, "near": near}, tell) as answers:
        for number, item in enumerate(library.items):
            if item.pinned:
                continue
            places = nearest(
                origin_text(item, [*origins, *tasks]), list(map(contents, tasks)), near
            )
            left = _compare(answers, config, tasks, places, number, rest, item)
            found.append(left)
            if not left.kept:
                rest = rest.changed([item.id], ())
        spent_usd = round(answers.caller.journal.spent.usd, 6)
    return Pruned(_noted(rest, found), found, spent_usd)


def _noted(library: Library, found: Sequence[Left]) -> Library:
    """Returns a library whose lessons have what leaving them out showed."""
    seen = {one.item.id: {"gain": one.effect, "tasks": one.tasks} for one in found if one.tasks}
    items = [
        replace(item, evidence={**item.evidence, **seen.get(item.id, {})}) for item in library.items
    ]
    return library.changed(seen.keys() & {item.id for item in items}, items)


def _compare(
    answers: Answers,
    config: ExperienceConfig,
    tasks: Sequence[Task],
    places: Sequence[int],
    number: int,
    library: Library,
    item: Item,
) -> Left:
    """Returns what leaving one lesson out shows, the lessons dropped so far left out in both."""
    how = Sampling(config.max_new_tokens, config.temperature_eval)
    drawn = [tasks[place] for place in places for _ in range(config.gate_draws)]
    arms: list[list[Answer]] = []
    for look, lessons in enumerate((library.changed([item.id], ()), library)):
        where = slots("prune", number, look, places, config.gate_draws)
        arms.append(answers.draw(drawn, where, lessons, how))
    pairs = Pairs()
    pairs.add([tasks[place] for place in places], arms[0], arms[1], config.gate_draws)
    found = pairs.differences
    if not found:
        return Left(item, 0.0, 0, kept=True, reason=answers.reason)
    effect = round(sum(found) / len(found), 6)
    return Left(item, effect, len(found), kept=effect > 0)
