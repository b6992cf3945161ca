"""Makes room in a full library: leaves each lesson out on the tasks nearest to its origin.

What does not help there is retired, the worst first. The gate decides on the library without it.
"""

from collections.abc import Sequence
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.experience.learning.answers import Answers, Pairs
from zoo.gym.experience.learning.nearest import nearest
from zoo.gym.experience.learning.split import contents, is_among
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import MOST_ITEMS, Library
from zoo.gym.rewards.reward import Task

NEAR = 4
"""The number of tasks that each lesson is left out on."""

DRAWS = 2
"""Answers to each of them, with all lessons and without the one."""

MOST_RETIRED = 8


def retire(
    answers: Answers, library: Library, tasks: Sequence[Task], step: int, sampling: Sampling
) -> Library:
    """Returns a library without the lessons that do not help.

    Pinned lessons stay.

    Raises:
        GymError: see `Answers.draw`.
    """
    free = [item for item in library.items if not item.pinned]
    near = [sorted(near_tasks(item, tasks, tasks, NEAR)) for item in free]
    every = {n: tasks[n] for n in sorted({n for numbers in near for n in numbers})}
    drawn = answers.draw(("prune", step, 0), every, DRAWS, library, sampling)
    learned = dict(zip(every, drawn, strict=True))
    useless: list[tuple[float, str]] = []
    for look, (item, numbers) in enumerate(zip(free, near, strict=True), 1):
        part, without = {n: tasks[n] for n in numbers}, library.changed([item.id], ())
        base = answers.draw(("prune", step, look), part, DRAWS, without, sampling)
        gains = Pairs(part.values(), base, [learned[n] for n in numbers]).differences
        if gains and fmean(gains) <= 0:
            useless.append((fmean(gains), item.id))
    return library.changed([item_id for _, item_id in sorted(useless)[:MOST_RETIRED]], ())


def most_calls(tasks: int, items: int) -> int:
    """Returns the most answers that making room takes, with so many tasks and lessons."""
    free = min(items, MOST_ITEMS)
    return DRAWS * (free * min(NEAR, tasks) + min(tasks, free * NEAR))


def near_tasks(item: Item, tasks: Sequence[Task], origins: Sequence[Task], count: int) -> list[int]:
    """Returns the numbers of the tasks nearest to those that taught a lesson, else to its text.

    `origins` are the tasks that may have taught it.
    """
    taught = [contents(task) for task in origins if is_among(task, item.sources)]
    return nearest("\n".join(taught) or item.text, list(map(contents, tasks)), count)
