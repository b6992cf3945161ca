"""Supervised fine-tuning: the answers of the data become more likely, token by token.

A step takes rows, the loss is the mean negative log-likelihood of their learned tokens, and an
evaluation is the same mean over the held-out rows, summed in float64.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zoo.gym.config.train import TrainConfig
from zoo.gym.data.units import rows_of
from zoo.gym.evaluate.held_out import held_out
from zoo.gym.objectives.sft import SupervisedLoss
from zoo.gym.train.method import Evaluation, Method
from zoo.gym.train.planning.plan import batch_tokens

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class SftConfig(TrainConfig, frozen=True):
    """The settings of supervised fine-tuning: only those common to all methods."""

    stage: Literal["sft"] = Field(default="sft", description="sft learns the answers")


class Supervised(Method):
    """Learns the answers of chats and completions, and every token of texts."""

    config = SftConfig

    @property
    def objective(self) -> "Objective":
        """The mean negative log-likelihood."""
        return SupervisedLoss()

    def evaluate(self) -> Evaluation:
        """Returns the loss of the held-out rows, in nats per learned token."""
        limit = batch_tokens(self.policy.parameter_count())
        score = held_out(self.policy, rows_of(self.held_out), max_batch_tokens=limit)
        return Evaluation(score.loss, score.tokens)
