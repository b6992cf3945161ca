"""A penalty for responses that are too long (arXiv:2503.14476, eq. 13)."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.gym.config.reward import LengthSettings
from zoo.gym.rewards.reward import Configured, Sample, Score, no_reward


@dataclass(frozen=True)
class Length(Configured[LengthSettings]):
    """0 up to `most - margin`, from there linear to -1 at `most`, and -1 beyond.

    The paper's L_max is `most`, its L_cache `margin`.
    """

    settings: LengthSettings

    @property
    def description(self) -> str:
        """Which lengths cost something."""
        start = self.settings.most - self.settings.margin
        return f"0 up to {start:,} {self.settings.unit}, -1 from {self.settings.most:,} on"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the penalty of each sample."""
        return [self._one(sample) for sample in samples]

    def _one(self, sample: Sample) -> Score:
        length = length_of(sample, self.settings.unit)
        if length is None:
            return no_reward("the number of tokens is unknown")
        most, margin = self.settings.most, self.settings.margin
        if length <= most - margin:
            return Score(0.0)
        over = length - (most - margin)
        value = -1.0 if over >= margin else -over / margin
        return Score(value, f"{length:,} {self.settings.unit}")


def length_of(sample: Sample, unit: str) -> int | None:
    """Returns the length of a response; None if it is unknown."""
    if unit == "tokens":
        return sample.tokens
    return len(sample.response.split() if unit == "words" else sample.response)
