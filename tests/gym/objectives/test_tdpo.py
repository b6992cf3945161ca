"""TDPO against its formulas: a case by hand, and both losses written out from the paper."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.gym.objectives.pair_problems import Pairs, close
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.constants import REF_LOGPROBS, WINDOW_UNITS
from zoo.gym.objectives.tdpo import TdpoLoss


class Distributions(Pairs):
    """Pairs under random distributions of policy and reference over 7 tokens, in float64."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        random = torch.Generator().manual_seed(seed)
        kind: dict[str, Any] = {"dtype": torch.float64, "generator": random}
        shape = (*self.mask_BT.shape, 7)
        self.logits_BTV = torch.randn(shape, **kind).requires_grad_()
        self.policy_BTV = torch.log_softmax(self.logits_BTV, -1)
        self.reference_BTV = torch.log_softmax(torch.randn(shape, **kind), -1)
        ids_BT1 = torch.randint(0, 7, (*self.mask_BT.shape, 1), generator=random)
        self.logprobs_BT = self.policy_BTV.gather(-1, ids_BT1)[..., 0]
        self.ref_BT = self.reference_BTV.gather(-1, ids_BT1)[..., 0]

    def stats(self) -> dict[Stat, Tensor]:
        gap = self.reference_BTV - self.policy_BTV
        return {
            Stat.LOGPROBS: self.logprobs_BT,
            Stat.FORWARD_KL: (self.reference_BTV.exp() * gap).sum(-1),
        }

    def gradient(self, loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, self.logits_BTV, retain_graph=True)
        return gradient

    def expected(self, loss: TdpoLoss) -> Tensor:
        """The loss of eq. 15 or 18, pair by pair and token by token."""
        total = torch.zeros((), dtype=torch.float64)
        for pair in range(self.pairs):
            u, k = [], []
            for row in (2 * pair, 2 * pair + 1):
                learned = self.mask_BT[row]
                u.append((self.logprobs_BT[row][learned] - self.ref_BT[row][learned]).sum())
                reference, policy = self.reference_BTV[row][learned], self.policy_BTV[row][learned]
                divergence = torch.nn.functional.kl_div(
                    policy, reference, log_target=True, reduction="sum"
                )
                k.append(divergence)
            if loss.loss == "tdpo1":
                delta = loss.beta * k[1] - loss.beta * k[0]
            else:
                delta = loss.alpha * (loss.beta * k[1] - (loss.beta * k[0]).detach())
            total = total - torch.log(torch.sigmoid(loss.beta * (u[0] - u[1]) - delta))
        return total / self.pairs


LOSSES = [
    TdpoLoss(),
    TdpoLoss(beta=0.5, alpha=0.9),
    TdpoLoss(loss="tdpo1"),
    TdpoLoss(loss="tdpo1", beta=0.7),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_each_loss_is_that_of_the_paper(loss: TdpoLoss, seed: int) -> None:
    problem = Distributions(seed)
    got, _ = problem.ours(loss)
    close(got, problem.expected(loss))
    close(problem.gradient(got), problem.gradient(problem.expected(loss)))
    close(problem.strictly(loss), got)
    close(torch.stack(problem.parts(loss)).sum(), got)


def test_a_case_by_hand() -> None:
    # r: 2 and -1; k: 0.5 and 1.5; beta 0.5, alpha 0.4
    batch = {
        "mask": torch.tensor([[0.0, 1.0]] * 2),
        REF_LOGPROBS: torch.tensor([[0.0, -3.0], [0.0, -1.0]]),
        WINDOW_UNITS: 1.0,
    }
    stats = {
        Stat.LOGPROBS: torch.tensor([[0.0, -1.0], [0.0, -2.0]]),
        Stat.FORWARD_KL: torch.tensor([[9.0, 0.5], [9.0, 1.5]]),
    }
    # the margin of TDPO1 is 0.5 * 3 - 0.5 * (1.5 - 0.5), that of TDPO2 1.5 - 0.4 * 0.5 * 1
    for kind, margin in (("tdpo1", 1.0), ("tdpo2", 1.3)):
        loss: Any = TdpoLoss(beta=0.5, loss=kind, alpha=0.4)  # type: ignore[arg-type]
        got, metrics = loss(TorchNamespace(), stats, batch)
        assert float(got) == pytest.approx(math.log1p(math.exp(-margin)), rel=1e-6)
        assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
            {
                "accuracy": 1,
                "margin": 1.5,
                "chosen_reward": 1,
                "rejected_reward": -0.5,
                "chosen_kl": 0.5,
                "rejected_kl": 1.5,
            }
        )
