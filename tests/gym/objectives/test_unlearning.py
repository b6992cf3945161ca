"""The losses of unlearning, computed by hand; value and gradient, and their limits."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gym.objectives.pair_problems import Pairs, close
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.data.units import RATING
from zoo.gym.objectives.constants import REF_LOGPROBS
from zoo.gym.objectives.unlearning import (
    WINDOW_FORGET,
    WINDOW_FORGET_TOKENS,
    WINDOW_RETAIN_TOKENS,
    UnlearningLoss,
)


def two_rows(logprob: float) -> tuple[Tensor, dict[str, Any]]:
    """One answer to forget of two tokens, one to retain of one; the reference has log 1/2 each."""
    half = math.log(0.5)
    logprobs_BT = torch.tensor([[0.0, logprob, half], [0.0, -1.0, 9.0]], dtype=torch.float64)
    return logprobs_BT.requires_grad_(), {
        "mask": torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]], dtype=torch.float64),
        REF_LOGPROBS: torch.full((2, 3), half, dtype=torch.float64),
        RATING: torch.tensor([-1.0, 1.0]),
        WINDOW_FORGET: 1.0,
        WINDOW_FORGET_TOKENS: 2.0,
        WINDOW_RETAIN_TOKENS: 1.0,
    }


def run(loss: UnlearningLoss, logprob: float) -> tuple[float, dict[str, float], Tensor]:
    logprobs_BT, batch = two_rows(logprob)
    found, metrics = loss(TorchNamespace(), {Stat.LOGPROBS: logprobs_BT}, batch)
    (gradient_BT,) = torch.autograd.grad(found, logprobs_BT)
    return found.item(), {name: value.item() for name, value in metrics.items()}, gradient_BT


def test_npo_at_the_reference_is_the_one_computed_by_hand() -> None:
    loss, metrics, gradient_BT = run(UnlearningLoss(beta=0.5, retain=0.3), math.log(0.5))
    # r = 0: 2 / 0.5 * log 2, its derivative 2 * sigmoid(0) = 1; the other answer has -log p = 1
    assert loss == pytest.approx(4 * math.log(2) + 0.3)
    assert metrics == pytest.approx({"forget_nll": math.log(2), "retain_nll": 1.0})
    assert gradient_BT.tolist() == [[0, pytest.approx(1), pytest.approx(1)], [0, -0.3, 0]]


def test_npo_pushes_less_once_an_answer_is_unlikely() -> None:
    loss, _, gradient_BT = run(UnlearningLoss(beta=1.0, retain=0.0), math.log(0.125))
    # r = log 1/8 - log 1/2 = log 1/4: 2 * log(1 + 1/4), and 2 * (1/4) / (1 + 1/4) = 0.4
    assert loss == pytest.approx(2 * math.log(1.25))
    assert gradient_BT[0].tolist() == pytest.approx([0, 0.4, 0.4])


def test_npo_with_a_small_beta_is_gradient_ascent() -> None:
    _, _, gradient_BT = run(UnlearningLoss(beta=1e-9, retain=0.0), -3.0)
    assert gradient_BT[0].tolist() == pytest.approx([0, 1, 1])


def test_simnpo_takes_the_mean_over_tokens_and_a_margin() -> None:
    given = UnlearningLoss("simnpo", beta=2.0, gamma=0.0, retain=0.0)
    loss, _, gradient_BT = run(given, math.log(0.125))
    # mean log p = (log 1/8 + log 1/2) / 2 = log 1/4: log(1 + 1/16), and 2 * (1/16) / (17/16) / 2
    assert loss == pytest.approx(math.log(1 + 1 / 16))
    assert gradient_BT[0].tolist() == pytest.approx([0, 1 / 17, 1 / 17])
    more, _, _ = run(
        UnlearningLoss("simnpo", beta=2.0, gamma=math.log(2), retain=0.0), -math.log(8)
    )
    assert more == pytest.approx(math.log(1 + 2 / 16))


LOSSES = [UnlearningLoss(), UnlearningLoss("simnpo", beta=2.5, gamma=0.3, retain=0.7)]


class Forgotten(Pairs):
    """Random answers, every second one to forget."""

    def batch(self, ld_alpha: float | None = None) -> dict[str, Any]:
        forget_B = torch.arange(len(self.mask_BT)) % 2 == 1
        return super().batch(ld_alpha) | {
            RATING: 1 - 2 * forget_B.double(),
            WINDOW_FORGET: float(forget_B.sum()),
            WINDOW_FORGET_TOKENS: float(self.mask_BT[forget_B].sum()),
            WINDOW_RETAIN_TOKENS: float(self.mask_BT[~forget_B].sum()),
        }


@pytest.mark.parametrize("loss", LOSSES)
def test_micro_batches_add_up_to_the_window(loss: UnlearningLoss) -> None:
    problem = Forgotten(0)
    close(torch.stack(problem.parts(loss)).sum(), problem.ours(loss)[0])


@pytest.mark.parametrize("loss", LOSSES)
def test_it_needs_no_more_than_the_array_api_standard(loss: UnlearningLoss) -> None:
    problem = Forgotten(1)
    close(problem.strictly(loss), problem.ours(loss)[0])


def test_a_window_of_one_kind_has_no_metric_of_the_other() -> None:
    logprobs_BT, batch = two_rows(-1.0)
    stats = {Stat.LOGPROBS: logprobs_BT[1:]}
    alone = {key: value[1:] if torch.is_tensor(value) else value for key, value in batch.items()}
    alone |= {WINDOW_FORGET: 0.0, WINDOW_FORGET_TOKENS: 0.0}
    loss, metrics = UnlearningLoss()(TorchNamespace(), stats, alone)
    assert loss.item() == 1.0
    assert list(metrics) == ["retain_nll"]
    assert np.isfinite(loss.item())
