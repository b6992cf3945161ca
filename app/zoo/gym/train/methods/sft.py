"""Supervised fine-tuning: the answers of the data become more likely, token by token.

A step takes rows, the loss is the mean negative log-likelihood of their learned tokens, and an
evaluation is the same mean over the held-out rows, summed in float64. With `use_dft_loss` a step
weighs tokens by their probability, an evaluation does not: so runs can be compared, and a token
that becomes impossible does not count as learned.
"""

from typing import TYPE_CHECKING, Literal, cast

from pydantic import Field

from zoo.gym.config.retaining import RetainingConfig
from zoo.gym.data.units import rows_of
from zoo.gym.measure.held_out import held_out
from zoo.gym.objectives.sft import SupervisedLoss
from zoo.gym.train.method import Evaluation, Method
from zoo.gym.train.plan import batch_tokens

if TYPE_CHECKING:
    from zoo.backends.base import Objective


class SftConfig(RetainingConfig, frozen=True):
    """The settings of supervised fine-tuning."""

    stage: Literal["sft"] = Field(default="sft", description="sft learns the answers")
    use_dft_loss: bool = Field(
        default=False,
        description="weigh each token by its probability: unlikely ones are learned less (DFT)",
    )


class Supervised(Method):
    """Learns the answers of chats and completions, and every token of texts."""

    config = SftConfig
    loss_unit = "nats per token"

    @property
    def objective(self) -> "Objective":
        """The mean negative log-likelihood, or that of `use_dft_loss`."""
        return SupervisedLoss(dft=cast("SftConfig", self.plan.config).use_dft_loss)

    def evaluate(self) -> Evaluation:
        """Returns the loss of the held-out rows, in nats per learned token."""
        limit = batch_tokens(self.policy.parameter_count())
        score = held_out(self.policy, rows_of(self.held_out), max_batch_tokens=limit)
        return Evaluation(score.loss, score.tokens)
