"""The settings of `zoo-gym experience train` and `distill`, each as one frozen model."""

from pydantic import ConfigDict, Field

from zoo.backends.sampling import Sampling
from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.config.settings import Settings
from zoo.gym.config.values import MOST_SEED, Number, Whole
from zoo.gym.files.yaml_entries import parse_value

LIVE = "a function of Python"
"""What the settings of a run call a reward that no file can name."""

MAJORITY = "majority"
"""The name of the reward that needs no answers in the rows."""


class ExperienceConfig(Settings, frozen=True):
    """How lessons are learned; the defaults of the groups are the published ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str = Field(
        min_length=1,
        description="the model that answers: deepseek/MODEL, openai:MODEL, http://HOST/v1#MODEL, "
        "or one of this machine: zen-nano, a folder",
    )
    teacher: str = Field(
        default="", description="the model that proposes lessons; by default the same model"
    )
    reward: str = Field(
        default="auto",
        description="what scores answers: a name, my.py:score (rewards.md), or majority: what "
        "most answers without lessons say",
    )
    gate: str = Field(default="", description="a file of tasks for the gate, instead of a share")
    test: str = Field(default="", description="a file of tasks for the test, instead of a share")
    name: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9_.-]{0,39})?$",
        description="the name of the library; by default that of the file of tasks",
    )
    group_size: Whole = Field(default=5, ge=1, le=64, description="answers to a task in a group")
    max_epochs: Whole = Field(default=3, ge=1, le=100, description="how often every task teaches")
    gate_draws: Whole = Field(
        default=2, ge=1, le=64, description="answers to each task of the gate, with either library"
    )
    test_draws: Whole = Field(
        default=4, ge=1, le=64, description="answers to each task of the test, with and without"
    )
    temperature_train: Number = Field(
        default=0.7, ge=0, le=5, description="the temperature of groups and probes"
    )
    temperature_eval: Number = Field(
        default=0.3, ge=0, le=5, description="the temperature of gate and test"
    )
    max_new_tokens: Whole = Field(
        default=1024, ge=1, le=1_000_000, description="tokens of an answer at most"
    )
    teacher_max_new_tokens: Whole = Field(
        default=2048, ge=16, le=1_000_000, description="tokens of a teacher's answer at most"
    )
    top_k: Whole | None = Field(
        default=None,
        ge=1,
        le=48,
        description="lessons in a prompt at most: those that share most words with the task; by"
        " default all",
    )
    system: str = Field(default="", description="text before the lessons, for all tasks")
    domain: str = Field(
        default="", max_length=200, description="what the tasks are about, for the library"
    )
    seed: Whole = Field(
        default=42, ge=0, le=MOST_SEED, description="another one splits and orders otherwise"
    )
    max_usd: Number | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="the cap on all calls, in USD; by default 5, none for models of this machine",
    )
    max_tokens: Whole | None = Field(
        default=None, ge=1, le=10**12, description="the cap on all calls, in tokens of both kinds"
    )

    @property
    def teacher_name(self) -> str:
        """The model that proposes lessons."""
        return self.teacher or self.model

    @property
    def sampling_train(self) -> Sampling:
        """How answers of groups and probes are drawn."""
        return Sampling(self.max_new_tokens, self.temperature_train)

    @property
    def sampling_eval(self) -> Sampling:
        """How answers of gate and test are drawn."""
        return Sampling(self.max_new_tokens, self.temperature_eval)

    @property
    def sampling_teacher(self) -> Sampling:
        """How the teacher's answers are drawn."""
        return Sampling(self.teacher_max_new_tokens, self.temperature_eval)

    @property
    def reward_spec(self) -> object:
        """The value of `reward` as it was written: a name, or YAML of several."""
        return parse_value(self.reward) if self.reward[:1] in ("{", "[") else self.reward

    @property
    def reward_kinds(self) -> set[str]:
        """The kinds of the reward's parts, as `rewards.md` names them."""
        if self.reward in (MAJORITY, LIVE):
            return {self.reward}
        return {part.kind for part in parse_spec(self.reward_spec)}

    @property
    def marks(self) -> dict[str, object]:
        """The evidence of how a library is measured: the lessons in a prompt, and labels.

        Labels are what stands for known answers: `majority`, `judge` or `model`.
        """
        labels = [kind for kind in (MAJORITY, "judge", "model") if kind in self.reward_kinds]
        marks: dict[str, object] = {} if self.top_k is None else {"top_k": self.top_k}
        return marks | ({"labels": labels[0]} if labels else {})


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
        """How answers are drawn and paid, as in a run of lessons."""
        settings = self.model_dump(exclude={"teacher", "test"})
        return ExperienceConfig.model_validate(settings | {"model": self.teacher or self.model})
