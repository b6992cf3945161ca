"""The leave-one-out loss and advantages against TRL's own code, in value and gradient."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gym.objectives.test_grpo_trl import EPSILON, Answers
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.advantages import leave_one_out
from zoo.gym.objectives.constants import WINDOW_ROWS
from zoo.gym.objectives.rloo import LeaveOneOutLoss


def trl_loss(answers: Answers, loss: LeaveOneOutLoss, old: Tensor) -> Tensor:
    from trl.trainer.rloo_trainer import RLOOTrainer

    ids, mask = torch.zeros_like(answers.mask, dtype=torch.long), answers.mask.double()
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1],
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": answers.advantages,
        "old_logps": (old * mask).sum(1),
    }
    stub = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            answers.logprobs,
            answers.entropies.detach(),
            None,
        ),
        accelerator=SimpleNamespace(
            gather=lambda x: x, gather_for_metrics=lambda x: x, reduce=lambda x, **_: x
        ),
        model=SimpleNamespace(training=True),
        aux_loss_enabled=False,
        epsilon_low=loss.epsilon,
        epsilon_high=loss.epsilon_high,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )
    compute: Any = RLOOTrainer._compute_loss
    found: Tensor = compute(stub, None, inputs)
    return found


@pytest.mark.parametrize("bounds", [(0.2, 0.2), (0.05, 0.6)])
@pytest.mark.parametrize("on_policy", [True, False])
def test_loss_and_gradient_are_those_of_trl(bounds: tuple[float, float], on_policy: bool) -> None:
    loss = LeaveOneOutLoss(*bounds)
    for seed in range(4):
        answers = Answers(seed, groups=1 + seed % 2, width=6 + seed)
        old = answers.logprobs.detach() if on_policy else answers.old
        batch = {
            "mask": answers.mask.double(),
            "advantages": answers.advantages,
            WINDOW_ROWS: float(len(answers.mask)),
        }
        if not on_policy:
            batch["old_logprobs"] = old
        ours = loss(TorchNamespace(), {Stat.LOGPROBS: answers.logprobs}, batch)[0]
        theirs = trl_loss(answers, loss, old)
        assert abs((ours - theirs).item()) <= EPSILON
        (mine,) = torch.autograd.grad(ours, answers.logprobs)
        (their,) = torch.autograd.grad(theirs, answers.logprobs)
        assert float((mine - their).abs().max()) <= EPSILON
        assert float(mine.abs().max()) > 0


def test_advantages_are_rewards_minus_the_mean_of_the_others() -> None:
    # TRL computes them in a method of a thousand lines; this is its formula, on any numbers
    rewards = np.random.default_rng(1).normal(size=(4, 6))
    rewards[1, 2] = np.nan
    others = np.array(
        [[np.nanmean(np.delete(row, place)) for place in range(6)] for row in rewards]
    )
    wanted = np.nan_to_num(rewards - others)
    assert np.abs(leave_one_out(rewards) - wanted).max() <= EPSILON
