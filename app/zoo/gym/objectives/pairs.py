"""What the losses over pairs share: the two answers, their log-probabilities, and metrics.

Legend: B rows, T positions, P pairs. Rows 2i and 2i + 1 are the better and the worse answer of
pair i (`zoo.gym.data.units.Unit`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.gym.objectives.constants import WINDOW_FIRST_TOKENS, WINDOW_UNITS
from zoo.gym.objectives.weights import pair_weights

if TYPE_CHECKING:
    from zoo.backends.base import Array, ArrayNamespace, Stat

MOST_EXPONENT = 80.0
"""The largest exponent: exp(80) is a float32."""


def sides(values_B: "Array") -> "tuple[Array, Array]":
    """Returns the values of the better and of the worse answers, `[P]` each."""
    return values_B[0::2], values_B[1::2]


def answer_tokens(xp: "ArrayNamespace", batch: "Mapping[str, Array]") -> "Array":
    """Returns the number of learned tokens of each row, `[B]`, at least 1."""
    count_B = xp.sum(batch["mask"], axis=-1)
    return xp.maximum(count_B, xp.ones_like(count_B))


def mean_logprobs(
    xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
) -> "Array":
    """Returns the mean log-probability of each row's learned tokens, `[B]`; 0 if it has none."""
    from zoo.backends.base import Stat

    return xp.sum(stats[Stat.LOGPROBS] * batch["mask"], axis=-1) / answer_tokens(xp, batch)


def better_nll(
    xp: "ArrayNamespace", stats: "Mapping[Stat, Array]", batch: "Mapping[str, Array]"
) -> "Array":
    """Returns minus the weighted log-probability of better answers, per token in the window."""
    from zoo.backends.base import Stat

    chosen_P, _ = sides(xp.sum(stats[Stat.LOGPROBS] * batch["mask"], axis=-1))
    return -xp.sum(pair_weights(batch) * chosen_P) / max(batch[WINDOW_FIRST_TOKENS], 1.0)


def smoothed_loss(xp: "ArrayNamespace", margin_P: "Array", label_smoothing: float) -> "Array":
    """Returns -log sigmoid(margin) for labels that are wrong with probability `label_smoothing`.

    It is the cross entropy of the Bradley-Terry probability with soft labels: the conservative DPO
    of Mitchell (2023), https://ericmitchell.ai/cdpo.pdf.
    """
    loss_P = -(1 - label_smoothing) * xp.log_sigmoid(margin_P)
    return loss_P - label_smoothing * xp.log_sigmoid(-margin_P) if label_smoothing else loss_P


def relu(xp: "ArrayNamespace", x: "Array") -> "Array":
    """Returns x where it is positive, else 0."""
    return xp.maximum(x, xp.zeros_like(x))


def reward_metrics(
    xp: "ArrayNamespace", chosen_P: "Array", rejected_P: "Array", batch: "Mapping[str, Array]"
) -> "dict[str, Array]":
    """Returns the metrics of a step, as sums over the pairs of the window.

    Args:
        xp: the array functions.
        chosen_P: the rewards of the better answers.
        rejected_P: the rewards of the worse answers.
        batch: with the number of pairs in the window.

    Returns:
        `accuracy`, the share of pairs whose better answer has the higher reward (equal ones count
        as wrong); `margin`, the mean difference of rewards; `chosen_reward` and `rejected_reward`,
        the mean rewards.
    """
    pairs, margin_P = batch[WINDOW_UNITS], chosen_P - rejected_P
    won_P = xp.where(margin_P > 0, xp.ones_like(margin_P), xp.zeros_like(margin_P))
    return {
        "accuracy": xp.sum(won_P) / pairs,
        "margin": xp.sum(margin_P) / pairs,
        "chosen_reward": xp.sum(chosen_P) / pairs,
        "rejected_reward": xp.sum(rejected_P) / pairs,
    }
