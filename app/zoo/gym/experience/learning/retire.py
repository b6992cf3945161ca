"""Makes room in a full library: leaves each lesson out on the tasks nearest to where it is from.

What does not help there is retired, the worst first. The gate decides on the library without it.
"""

from collections.abc import Sequence
from statistics import fmean

from zoo.backends.sampling import Sampling
from zoo.gym.experience.learning.answers import Answer, Answers, chunked, slots
from zoo.gym.experience.learning.nearest import nearest
from zoo.gym.experience.learning.pairs import Pairs
from zoo.gym.experience.learning.split import contents, is_among
from zoo.gym.experience.library.item import Item
from zoo.gym.experience.library.library import MOST_ITEMS, Library
from zoo.gym.rewards.reward import Task

NEAR = 4
"""The tasks that each lesson is left out on."""

DRAWS = 2
"""Answers to each of them, with all lessons and without the one."""

MOST_RETIRED = 8


def retire(
    answers: Answers, library: Library, tasks: Sequence[Task], step: int, how: Sampling
) -> Library:
    """Returns a library without the lessons that do not help.

    Args:
        answers: draws answers of the model.
        library: the lessons; pinned ones stay.
        tasks: all tasks that teach.
        step: the step, from 0.
        how: how answers are drawn.

    Raises:
        GymError: see `Answers.draw`.
    """
    texts = list(map(contents, tasks))
    free = [item for item in library.items if not item.pinned]
    near = [sorted(nearest(origin_text(item, tasks), texts, NEAR)) for item in free]
    every = sorted({place for places in near for place in places})
    full = dict(zip(every, _drawn(answers, library, tasks, every, (step, 0), how), strict=True))
    useless: list[tuple[float, str]] = []
    for look, (item, places) in enumerate(zip(free, near, strict=True), 1):
        without = library.changed([item.id], ())
        pairs = Pairs()
        before = _drawn(answers, without, tasks, places, (step, look), how)
        flat = [[one for group in arm for one in group] for arm in (before, _at(full, places))]
        pairs.add([tasks[place] for place in places], flat[0], flat[1], DRAWS)
        found = pairs.differences
        if found and fmean(found) <= 0:
            useless.append((fmean(found), item.id))
    return library.changed([one for _, one in sorted(useless)[:MOST_RETIRED]], ())


def most_calls(tasks: int, items: int) -> int:
    """Returns the most answers that making room takes, with so many tasks and lessons."""
    held = min(items, MOST_ITEMS)
    return DRAWS * (held * min(NEAR, tasks) + min(tasks, held * NEAR))


def origin_text(item: Item, tasks: Sequence[Task]) -> str:
    """Returns the text that tasks are near to: that of a lesson's tasks, else its own."""
    own = [contents(task) for task in tasks if is_among(task, item.sources)]
    return "\n".join(own) or item.text


def _drawn(
    answers: Answers,
    library: Library,
    tasks: Sequence[Task],
    places: Sequence[int],
    where: tuple[int, int],
    how: Sampling,
) -> list[Sequence[Answer]]:
    drawn = [tasks[place] for place in places for _ in range(DRAWS)]
    found = answers.draw(drawn, slots("prune", *where, places, DRAWS), library, how)
    return chunked(found, DRAWS)


def _at(full: dict[int, Sequence[Answer]], places: Sequence[int]) -> list[Sequence[Answer]]:
    return [full[place] for place in places]
