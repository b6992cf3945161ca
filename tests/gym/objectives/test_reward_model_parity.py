"""The loss of a reward model against TRL's own code: margins and centering."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.gym.objectives.pair_problems import Pairs, accelerator, close
from zoo.backends.base import Stat
from zoo.gym.data.units import MARGIN
from zoo.gym.objectives.reward_model import RewardLoss


class Scores(Pairs):
    """Random scores, each at one position of its row; two rows have none."""

    def __init__(self, seed: int, *, margins: bool) -> None:
        super().__init__(seed)
        random = torch.Generator().manual_seed(seed)
        rows, width = self.mask_BT.shape
        at = torch.randint(1, width, (rows,), generator=random)
        self.mask_BT = self.mask_BT & (torch.arange(width)[None] == at[:, None])
        margin_P = torch.rand(self.pairs, dtype=torch.float64, generator=random)
        self.margin_B = margin_P.repeat_interleave(2) if margins else None

    def stats(self) -> dict[Stat, Tensor]:
        return {Stat.VALUES: self.logprobs_BT}

    def batch(self, ld_alpha: float | None = None) -> dict[str, Any]:
        margin = {} if self.margin_B is None else {MARGIN: self.margin_B}
        return super().batch(ld_alpha) | margin


def trl_reward(problem: Scores, center: float) -> tuple[Tensor, dict[str, float]]:
    """Returns TRL's own loss over our scores, and its metrics by name."""
    from trl.trainer.reward_trainer import RewardTrainer

    scores_B = (problem.logprobs_BT * problem.mask_BT).sum(1)
    said = SimpleNamespace(logits=problem.chosen_first(scores_B)[:, None])
    metrics: dict[str, list[float]] = defaultdict(list)
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True),
        accelerator=accelerator(),
        args=SimpleNamespace(center_rewards_coefficient=center or None),
        _metrics={"train": metrics},
        _total_train_tokens=0,
        _tp_size=1,
    )
    inputs: dict[str, Any] = {"attention_mask": torch.ones(problem.mask_BT.shape)}
    if problem.margin_B is not None:
        inputs["margin"] = problem.margin_B[0::2]
    compute: Any = RewardTrainer.compute_loss
    loss = compute(trainer, lambda **_: said, inputs)
    return loss, {name: values[-1] for name, values in metrics.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("center", [0.0, 0.01])
@pytest.mark.parametrize("margins", [False, True])
def test_the_loss_is_that_of_trl(margins: bool, center: float, seed: int) -> None:
    problem, loss = Scores(seed, margins=margins), RewardLoss(center)
    got, metrics = problem.ours(loss)
    expected, theirs = trl_reward(problem, center)
    close(got, expected)
    close(problem.gradient(got), problem.gradient(expected))
    close(problem.strictly(loss), got)
    close(torch.stack(problem.parts(loss)).sum(), got)
    assert float(metrics["accuracy"]) == pytest.approx(theirs["accuracy"], abs=1e-7)
    assert float(metrics["margin"].detach()) == pytest.approx(theirs["margin"], abs=1e-12)
