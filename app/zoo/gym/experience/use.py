"""Lessons in use: several libraries as one, and what a user should know of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zoo.gym.data.records import Message
from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.infer import doubts, top_k_of
from zoo.gym.experience.learning.prompts import lessons_for, unmatched
from zoo.gym.experience.library.library import Library
from zoo.gym.rewards.reward import Task


@dataclass(frozen=True)
class InUse:
    """Lessons that a conversation reads.

    Attributes:
        library: the lessons.
        top_k: how many a prompt has at most that are not pinned; None for all.
        notices: sentences that a user should read.
        tell: gets a sentence where no lesson is near to what was said.
    """

    library: Library
    top_k: int | None
    notices: list[str]
    tell: Callable[[str], object] = bool

    @property
    def text(self) -> str | Callable[[str], str]:
        """What a model reads: the same text always, or the nearest lessons to words."""
        return self.library.text if self.top_k is None else self.nearest

    def nearest(self, words: str) -> str:
        """Returns the pinned lessons and those that share most words with a text."""
        task = Task((Message("user", words),))
        if none_near := unmatched(task, self.library, self.top_k):
            self.tell(none_near)
        return lessons_for(task, self.library, self.top_k).text


def lessons_of(
    given: str, model: str, top_k: int | None = None, tell: Callable[[str], object] = bool
) -> InUse:
    """Returns the lessons of libraries, and how they are read.

    Args:
        given: names, NAME@VERSION or files, separated by commas; a lesson of two counts once.
        model: the model that will read them.
        top_k: how many of them a prompt has at most; by default as they were measured, if all of
            the libraries were measured so.
        tell: gets a sentence where no lesson is near to what was said.

    Raises:
        InputError: nothing is named, or together they are larger than a library may be.
        NotAvailableError: there is no such library.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError("--experience: expected the name of a library, got an empty one")
    found = [store.load_given(name) for name in names]
    measured = {top_k_of(None, one.library) for one in found}
    nearest = top_k or (measured.pop() if len(measured) == 1 else None)
    notices = [f"{one.name}: {sentence}" for one in found for sentence in one.notices]
    for one in found:
        notices += [f"{one.name}: {each}" for each in doubts(one.library, model, nearest)]
    return InUse(_together([one.library for one in found]), nearest, notices, tell)


def _together(libraries: Sequence[Library]) -> Library:
    if len(libraries) == 1:
        return libraries[0]
    items = {item.id: item for one in libraries for item in one.items}
    try:
        return Library(tuple(items.values()))
    except InputError as error:
        hint = "name fewer libraries, or drop lessons: zoo-gym experience prune"
        raise InputError(f"together: {error.message}", hint=hint) from None
