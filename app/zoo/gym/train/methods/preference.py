"""What the methods that learn from pairs of answers share: rows, reference, decision, settings.

Legend: T positions.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from zoo.gym.data.units import Unit, with_extra
from zoo.gym.objectives.constants import LOGPROB_WEIGHTS
from zoo.gym.train.method import Evaluation, Method
from zoo.gym.train.reference import with_reference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALLEN = 3
"""Evaluations in a row after which falling likelihood is reported."""


class Preference(Method):
    """Learns from pairs; the best step is the last that ranks most held-out pairs as the data does.

    Few held-out pairs are soon ranked right, when most of the training is still to come: of equal
    steps the last is the best.
    """

    reads = frozenset({"pair"})
    decides = "accuracy"
    better: ClassVar[Literal["lower", "higher"]] = "higher"
    watch = ("accuracy", "margin")

    has_likelihoods: ClassVar[bool] = True
    """Whether rewards are log-probabilities of answers, times a factor."""

    _before: Mapping[str, float] | None = None
    _fallen = 0

    def doubt(self, evaluation: Evaluation) -> str | None:
        """Returns a warning, once, if better answers become unlikely and no more pairs are right.

        The difference to the worse ones may grow meanwhile, and the loss fall. Only evaluations of
        this process are compared.
        """
        now = evaluation.metrics
        if not self.has_likelihoods or "chosen_reward" not in now:
            return None
        if self._before is None:
            self._before = now
            return None
        chance = 0.5 if self._before["accuracy"] == self._before["margin"] == 0 else 0.0
        rises = now["accuracy"] > max(chance, self._before["accuracy"])
        falls = now["chosen_reward"] < self._before["chosen_reward"]
        self._fallen = self._fallen + 1 if falls and not rises else 0
        if self._fallen != FALLEN:
            return None
        return (
            f"the last {FALLEN} evaluations: the better answers of held-out pairs are less likely "
            f"than before training (chosen_reward {now['chosen_reward']:.3g}), and no more pairs "
            "are ranked right: try a lower learning_rate, or pref_loss=sigmoid,sft"
        )

    def is_tied(self, evaluation: Evaluation) -> bool:
        """Returns whether all margins are 0, as they are before training by construction.

        With an accuracy of 0 no margin is above 0, so a mean of 0 has none below it, either.
        """
        return evaluation.metrics.get("accuracy") == evaluation.metrics.get("margin") == 0

    def improves(self, score: float, best: float | None) -> bool:
        """Returns whether an accuracy is at least as high as the best so far; NaN never is."""
        return score == best or super().improves(score, best)


class Referenced(Preference):
    """Compares the policy with the model that training starts from, which is scored once."""

    def prepare(self) -> None:
        """Adds the log-probabilities of the reference to all rows."""
        folder, policy = self.folder, self.policy
        self.units = with_reference(policy, self.units, folder / "reference.safetensors")
        if self.held_out:
            file = folder / "reference-held-out.safetensors"
            self.held_out = with_reference(policy, self.held_out, file)


def with_logprob_weights(units: Sequence[Unit], ld_alpha: float) -> tuple[Unit, ...]:
    """Returns pairs whose answers have weights per token, for LD-DPO (arXiv:2409.06411).

    Up to the length of the shorter answer of its pair a learned token has the weight 1, after it
    `ld_alpha`: what only the longer answer can say counts less.

    Args:
        units: pairs.
        ld_alpha: 0 ignores the rest of the longer answer, 1 changes nothing.
    """
    weighted: list[Unit] = []
    for unit in units:
        shared = min(int(row.mask.sum()) for row in unit.rows)
        rows = (
            with_extra(row, LOGPROB_WEIGHTS, _logprob_weights(row.mask, shared, ld_alpha))
            for row in unit.rows
        )
        weighted.append(Unit(tuple(rows)))
    return tuple(weighted)


def _logprob_weights(
    mask_T: "NDArray[np.bool_]", shared: int, ld_alpha: float
) -> "NDArray[np.float32]":
    import numpy as np

    weights_T: NDArray[Any] = np.where(np.cumsum(mask_T) <= shared, 1.0, ld_alpha)
    return weights_T.astype(np.float32)
