"""What losses of log-probabilities have in common."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.base import Stat


class LogprobLoss:
    """A loss that reads log-probabilities alone, of rows that do not depend on each other."""

    coupled = False

    @property
    def needs(self) -> "frozenset[Stat]":
        """Only log-probabilities."""
        from zoo.backends.base import Stat

        return frozenset({Stat.LOGPROBS})
