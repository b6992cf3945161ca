"""The interface of all rewards: a task, a response to it, and the score of the response.

The same rewards serve GRPO, which trains weights, and Training-Free GRPO, which collects
experiences (arXiv:2402.03300, arXiv:2510.08191).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from zoo.gym.data.records import Message, Tools

if TYPE_CHECKING:
    from zoo.gym.config.reward import RewardSettings

S = TypeVar("S", bound="RewardSettings")


@dataclass(frozen=True, slots=True)
class Task:
    """What a response is written for: one row of the data.

    Attributes:
        messages: the turns that the model answers; the last one is the user's, or a tool's. A plain
            prompt is one user turn.
        answer: the row's answer as its file has it: text, a number, a list of accepted answers;
            None if the row has none.
        reference: an answer in prose, such as the `output` of an instruction; empty if there is
            none. It shows what is wanted, but a good response may differ from it.
        metadata: the row's other fields by name: `test_list`, `difficulty`, ...
        source: `file:line`.
        tools: the definitions of the tools that the model may call.
        is_chat: whether its row has turns in place of a text as the prompt.
    """

    messages: tuple[Message, ...]
    answer: object = None
    reference: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    source: str = ""
    tools: Tools = ()
    is_chat: bool = False

    @property
    def query(self) -> str:
        """The text of the last user turn."""
        return next((turn.content for turn in reversed(self.messages) if turn.role == "user"), "")


@dataclass(frozen=True, slots=True)
class Sample:
    """One response to a task.

    Attributes:
        task: the task.
        response: the whole text that the model wrote, with its reasoning.
        tokens: the number of tokens of the response; None if unknown.
    """

    task: Task
    response: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The reward of one sample.

    Attributes:
        value: the reward; NaN if the sample has none, because it could not be scored.
        reason: why it has this value, for people; of a NaN always present.
        parts: the value of each reward of a sum by name, before weights; empty for a single one.
    """

    value: float
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def failed(self) -> bool:
        """Whether the sample has no reward."""
        return math.isnan(self.value)


def no_reward(reason: str) -> Score:
    """Returns the score of a sample that could not be scored."""
    return Score(math.nan, reason)


class Reward(ABC):
    """Scores responses. It may own a process or a model, which `close` ends.

    A reward never raises because of a response: a response that cannot be scored has the value NaN
    and a reason.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for logs and charts: `numeric`, `my_rewards.py:score`."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What it rewards, and why it was chosen, in one sentence."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the rewards that it sums, in order; empty for a single one."""
        return ()

    @property
    def sources(self) -> Mapping[str, str]:
        """The SHA-256 of each file of the user that it consists of, by path."""
        return {}

    def missing(self, task: Task) -> str | None:
        """Returns what a task lacks, `no answer`; None if its responses can be scored."""
        del task
        return None

    @abstractmethod
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Returns the score of each sample, in the same order.

        Raises:
            InterruptedRunError: a function of the user does not return, or its files have changed;
                the run can be resumed.
        """

    def close(self) -> None:  # noqa: B027 - most own nothing
        """Ends what the reward owns; it cannot be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Configured(Reward, Generic[S]):
    """A reward that is made from its settings, which name it."""

    settings: S

    @property
    def name(self) -> str:
        """The name of the reward."""
        return self.settings.label
