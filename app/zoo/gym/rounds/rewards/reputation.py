"""The reputation of a contributor: a moving average of quality that falls faster than it rises.

r <- r + rate * (quality - r), with a rate of .1 upwards and .5 downwards, from 0; a failed
validation puts it to the floor, and each round without a contribution multiplies it by the decay.
"""

from dataclasses import dataclass, replace

from zoo.gym.errors import InputError

UP, DOWN = 0.1, 0.5
DECAY = 0.95
FLOOR = 0.0


@dataclass(frozen=True)
class Reputation:
    """What is known of a contributor.

    Attributes:
        value: 0 to 1.
        accepted: rounds in which a contribution had a quality above 0, which without a gate is
            weight in the result.
    """

    value: float = 0.0
    accepted: int = 0

    def after(self, quality: float) -> "Reputation":
        """Returns it after a round in which the contribution had a quality of 0 to 1.

        Raises:
            InputError: the quality is not in that range.
        """
        if not 0 <= quality <= 1:
            raise InputError(f"quality: expected 0 to 1, got {quality}")
        rate = UP if quality > self.value else DOWN
        # Junk that a rule weighs with 0 must not make its key an established one.
        accepted = self.accepted + (quality > 0)
        return Reputation(self.value + rate * (quality - self.value), accepted)

    def after_refusal(self) -> "Reputation":
        """Returns it after a contribution that failed its validation."""
        return replace(self, value=FLOOR)

    def after_absence(self, decay: float = DECAY) -> "Reputation":
        """Returns it after a round without a contribution."""
        return replace(self, value=self.value * decay)
