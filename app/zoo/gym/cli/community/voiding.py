"""Asks before a round of which no result can come becomes void."""

from collections.abc import Callable
from typing import TypeVar

from zoo.gym.cli.options import confirmed

Result = TypeVar("Result")


def or_void(publish: Callable[..., Result], *, yes: bool) -> Result:
    """Publishes a result; if none can come of the round, makes it void after a yes.

    Args:
        publish: publishes; `void=True` lets it make the round void.
        yes: it may, without asking.

    Raises:
        GymError: the round is void.
        InputError: no result can come of it, and the user does not agree.
    """
    from zoo.gym.rounds.compute.collect import NoResultError

    try:
        return publish(void=yes)
    except NoResultError as error:
        asked = f"{error.message}: make the round void for good? [y/N] "
        if not confirmed(asked, yes=False):
            raise
    return publish(void=True)
