"""Sums several rewards with weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zoo.gym.rewards.reward import Reward, Sample, Score, Task


@dataclass(frozen=True)
class Weighted(Reward):
    """The weighted sum of rewards.

    A sample that one of them cannot score has no reward: sums over different rewards cannot be
    compared. (TRL sums the others.)

    Attributes:
        rewards: the rewards, with different names.
        weights: the weight of each, of any sign.
    """

    rewards: tuple[Reward, ...]
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        """The names, joined."""
        return "+".join(self.parts)

    @property
    def description(self) -> str:
        """Each reward with its weight."""
        terms = zip(self.weights, self.rewards, strict=True)
        return "the sum of " + ", ".join(f"{weight:g} x {reward.name}" for weight, reward in terms)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the rewards."""
        return tuple(reward.name for reward in self.rewards)

    @property
    def sources(self) -> dict[str, str]:
        """The files of all rewards."""
        return {
            file: content for reward in self.rewards for file, content in reward.sources.items()
        }

    def missing(self, task: Task) -> str | None:
        """Returns what the first reward lacks that lacks anything."""
        for reward in self.rewards:
            if lack := reward.missing(task):
                return f"{lack} (reward {reward.name})"
        return None

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns each sample's sum, with the values of the rewards as `parts`."""
        columns = [reward.score(samples) for reward in self.rewards]
        return [self._sum(scores) for scores in zip(*columns, strict=True)]

    def _sum(self, scores: Sequence[Score]) -> Score:
        parts = {name: score.value for name, score in zip(self.parts, scores, strict=True)}
        value = math.fsum(
            weight * score.value for weight, score in zip(self.weights, scores, strict=True)
        )
        failed = [name for name, part in parts.items() if math.isnan(part)]
        named = zip(self.parts, scores, strict=True)
        reasons = [
            f"{name}: {score.reason}"
            for name, score in named
            if score.reason and (not failed or name in failed)
        ]
        return Score(math.nan if failed else value, "; ".join(reasons), parts)

    def close(self) -> None:
        """Ends what each reward owns."""
        for reward in self.rewards:
            reward.close()
