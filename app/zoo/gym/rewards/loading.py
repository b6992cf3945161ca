"""Creates the reward that a setting names."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module

from zoo.gym.config.reward import JudgeSettings, ModelSettings, RewardSettings
from zoo.gym.config.reward_spec import parse_spec
from zoo.gym.errors import InputError
from zoo.gym.rewards.auto import choose, has_choice
from zoo.gym.rewards.reward import Reward, Sample, Score, Task
from zoo.gym.rewards.weighted import Weighted

CLASSES = {
    "answer": "zoo.gym.rewards.answers.either:Either",
    "environment": "zoo.gym.rewards.environments.environment:Environment",
    "exact": "zoo.gym.rewards.answers.exact:Exact",
    "function": "zoo.gym.rewards.functions.file:FileFunction",
    "format": "zoo.gym.rewards.form.form:Form",
    "grader": "zoo.gym.rewards.code.grader:PythonGrader",
    "judge": "zoo.gym.rewards.models.judge:Judge",
    "length": "zoo.gym.rewards.form.length:Length",
    "live": "zoo.gym.rewards.functions.live:LiveFunction",
    "math": "zoo.gym.rewards.answers.symbolic:Symbolic",
    "model": "zoo.gym.rewards.models.reward_model:ModelReward",
    "numeric": "zoo.gym.rewards.answers.numeric:Numeric",
    "regex": "zoo.gym.rewards.answers.regex:Regex",
    "similarity": "zoo.gym.rewards.answers.similarity:Similarity",
    "tests": "zoo.gym.rewards.code.unit_tests:UnitTests",
}
"""Kind -> "module:class" of its `Reward`, which takes the kind's settings."""


def load(spec: object, tasks: Sequence[Task]) -> Reward:
    """Returns the reward for a value of the setting `reward`.

    Args:
        spec: the value: see `zoo.gym.config.reward_spec`.
        tasks: all rows whose responses it will score; `auto` chooses by them.

    Raises:
        InputError: the value is wrong, or a row lacks what the reward needs, such as an answer.
    """
    parts = parse_spec(spec)
    reward = _make_all(parts, tasks)
    if lacking := _lacking(reward, tasks):
        reward.close()
        raise lacking[1]
    return reward


def check(spec: object, tasks: Sequence[Task]) -> None:
    """Refuses before there is a run a reward that cannot be made, or that fits none of the rows.

    Models that score are not loaded.

    Args:
        spec: see `load`.
        tasks: some of the rows; a run may leave out those that lack what the reward needs.

    Raises:
        InputError: see `load`.
    """
    parts = parse_spec(spec)
    if parts[0].kind == "auto":
        if not any(map(has_choice, tasks)):
            choose(tasks)
    elif not any(isinstance(part, JudgeSettings | ModelSettings) for part in parts):
        with closing(_weighted(parts)) as reward:
            count, error = _lacking(reward, tasks) or (0, None)
            if error is not None and count == len(tasks):
                raise error


def _lacking(reward: Reward, tasks: Sequence[Task]) -> tuple[int, InputError] | None:
    """Returns how many rows lack what the reward needs, and the error; None if none does."""
    rows = [(task, lack) for task in tasks if (lack := reward.missing(task))]
    if not rows:
        return None
    task, lack = rows[0]
    where = f"{task.source}: " if task.source else ""
    more = f" (and {len(rows) - 1:,} other rows)" if len(rows) > 1 else ""
    text = f"{where}{lack}: expected what reward {reward.name} compares with{more}"
    return len(rows), InputError(text, code="rewards.missing_column")


def _make_all(parts: Sequence[RewardSettings], tasks: Sequence[Task]) -> Reward:
    if parts[0].kind == "auto":
        choice = choose(tasks)
        named = {"name": parts[0].name, "weight": parts[0].weight}
        return Chosen(_weighted([choice.settings.model_copy(update=named)]), choice.why)
    return _weighted(parts)


def _weighted(parts: Sequence[RewardSettings]) -> Reward:
    if len(parts) == 1 and parts[0].weight == 1.0:
        return _make(parts[0])
    return Weighted(tuple(map(_make, parts)), tuple(part.weight for part in parts))


def _make(settings: RewardSettings) -> Reward:
    module, _, name = CLASSES[settings.kind].partition(":")
    reward: Reward = getattr(import_module(module), name)(settings)
    return reward


@dataclass(frozen=True)
class Chosen(Reward):
    """A reward that was chosen for the rows, with the reason in its description."""

    reward: Reward
    why: str

    @property
    def name(self) -> str:
        """The name of the chosen reward."""
        return self.reward.name

    @property
    def description(self) -> str:
        """What it rewards and why it was chosen."""
        return f"{self.reward.name}, because {self.why}: {self.reward.description}"

    @property
    def parts(self) -> tuple[str, ...]:
        """The name of the chosen reward if it has a weight."""
        return self.reward.parts

    @property
    def sources(self) -> Mapping[str, str]:
        """The files of the chosen reward."""
        return self.reward.sources

    def missing(self, task: Task) -> str | None:
        """Returns what the task lacks."""
        return self.reward.missing(task)

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the scores of the chosen reward."""
        return self.reward.score(samples)

    def close(self) -> None:
        """Ends what the chosen reward owns."""
        self.reward.close()
