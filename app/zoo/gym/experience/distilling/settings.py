"""The settings of `zoo-gym experience distill`, as one frozen model."""

from pydantic import ConfigDict, Field

from zoo.gym.config.settings import Settings
from zoo.gym.config.values import MOST_SEED, Number, Whole
from zoo.gym.experience.settings import ExperienceConfig


class DistillationConfig(Settings, frozen=True):
    """How lessons become weights, and how the result is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str = Field(min_length=1, description="the model of this machine that is trained")
    teacher: str = Field(
        default="",
        description="a model on a server that answers with the lessons: its rewarded answers are"
        " learned; by default the model itself teaches, by its probabilities",
    )
    reward: str = Field(
        default="auto", description="what scores answers: a name, or my.py:score; see rewards.md"
    )
    test: str = Field(default="", description="a file of tasks to measure on, instead of a share")
    group_size: Whole = Field(default=2, ge=1, le=64, description="answers to a task in a step")
    test_draws: Whole = Field(
        default=4, ge=1, le=64, description="answers to each held-out task, in each of four ways"
    )
    temperature_train: Number = Field(
        default=1.0, ge=1e-2, le=5, description="the temperature of answers that are learned"
    )
    temperature_eval: Number = Field(
        default=0.3, ge=0, le=5, description="the temperature of answers that are measured"
    )
    max_new_tokens: Whole = Field(
        default=256, ge=1, le=1_000_000, description="tokens of an answer at most"
    )
    seed: Whole = Field(
        default=42, ge=0, le=MOST_SEED, description="another one splits and draws otherwise"
    )
    max_usd: Number | None = Field(
        default=None, ge=0, le=1e6, description="the cap on calls of a teacher, in USD"
    )
    max_tokens: Whole | None = Field(
        default=None, ge=1, le=10**12, description="the cap on calls of a teacher, in tokens"
    )

    @property
    def calls(self) -> ExperienceConfig:
        """How answers are drawn and paid, as of a run of lessons."""
        who = self.teacher or self.model
        return ExperienceConfig(
            model=who,
            reward=self.reward,
            group_size=self.group_size,
            test_draws=self.test_draws,
            temperature_train=self.temperature_train,
            temperature_eval=self.temperature_eval,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed,
            max_usd=self.max_usd,
            max_tokens=self.max_tokens,
        )
