"""Lessons in use: several libraries as one, and what a user should know of them."""

from collections.abc import Sequence

from zoo.gym.errors import InputError
from zoo.gym.experience import store
from zoo.gym.experience.infer import doubts
from zoo.gym.experience.library.library import Library


def lessons_of(given: str, model: str) -> tuple[Library, list[str]]:
    """Returns the lessons of libraries and sentences that a user should read.

    Args:
        given: names, NAME@VERSION or files, separated by commas; a lesson of two counts once.
        model: the model that will read them.

    Raises:
        InputError: nothing is named, or together they are larger than a library may be.
        NotAvailableError: there is no such library.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError("experience: expected the name of a library, got nothing")
    found = [store.load_given(name) for name in names]
    notices = [f"{one.name}: {sentence}" for one in found for sentence in one.notices]
    notices += [
        f"{one.name}: {sentence}" for one in found for sentence in doubts(one.library, model)
    ]
    return _together([one.library for one in found]), notices


def _together(libraries: Sequence[Library]) -> Library:
    if len(libraries) == 1:
        return libraries[0]
    items = {item.id: item for one in libraries for item in one.items}
    try:
        return Library(tuple(items.values()))
    except InputError as error:
        hint = "name fewer libraries, or drop lessons: zoo-gym experience prune"
        raise InputError(f"together: {error.message}", hint=hint) from None
