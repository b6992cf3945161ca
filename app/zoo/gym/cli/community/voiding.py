"""Asks before a round with too few contributions becomes void."""

from collections.abc import Callable
from typing import TypeVar

from zoo.gym.cli.options import confirmed

Result = TypeVar("Result")


def or_void(publish: Callable[..., Result], *, yes: bool) -> Result:
    """Publishes a result; if too few contributions count, makes the round void after a yes.

    Args:
        publish: publishes; `void=True` lets it make the round void.
        yes: it may, without asking.

    Raises:
        GymError: the round is void.
        InputError: too few contributions count, and the user does not agree.
    """
    from zoo.gym.rounds.compute.collect import TooFewError

    try:
        return publish(void=yes)
    except TooFewError as error:
        asked = f"{error.message}: make the round void for good? [y/N] "
        if not confirmed(asked, yes=False):
            raise
    return publish(void=True)
