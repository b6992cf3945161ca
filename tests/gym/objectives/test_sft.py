"""The supervised loss against torch's cross entropy, TRL's, and the strict array namespace."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gym.objectives.strict import StrictNamespace
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.sft import SupervisedLoss

ROWS, WIDTH, WORDS = 5, 9, 31
EPSILON = 1e-12
IGNORED = -100


class Problem:
    """Random logits and masks; row 3 has nothing to learn, and no row learns its first token."""

    def __init__(self, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        kind: dict[str, Any] = {"dtype": torch.float64, "generator": random}
        self.logits_BTV = (3 * torch.randn(ROWS, WIDTH, WORDS, **kind)).requires_grad_()
        self.targets_BT = torch.randint(0, WORDS, (ROWS, WIDTH), generator=random)
        self.mask_BT = torch.rand(ROWS, WIDTH, **kind) < 0.6
        self.mask_BT[3], self.mask_BT[:, 0] = False, False
        self.window_tokens = float(self.mask_BT.sum()) + 7  # other micro-batches learn 7 more

    def logprobs_BT(self) -> Tensor:
        """Log-probabilities of the targets, garbage included where nothing is learned."""
        logprobs_BTV = torch.log_softmax(self.logits_BTV, -1)
        return logprobs_BTV.gather(-1, self.targets_BT[..., None])[..., 0]

    def ours(self, *, dft: bool = False) -> Tensor:
        batch = {"mask": self.mask_BT.double(), WINDOW_TOKENS: self.window_tokens}
        stats = {Stat.LOGPROBS: self.logprobs_BT()}
        loss: Tensor = SupervisedLoss(dft=dft)(TorchNamespace(), stats, batch)[0]
        return loss

    def cross_entropy(self) -> Tensor:
        labels = self.targets_BT.masked_fill(~self.mask_BT, IGNORED).flatten()
        logits = self.logits_BTV.flatten(0, 1)
        return (
            torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
            / self.window_tokens
        )

    def gradient(self, loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, self.logits_BTV)
        return gradient


def trl_loss(problem: Problem, loss_type: str = "nll") -> Tensor:
    """TRL's own `compute_loss` over our log-probabilities; the model is a function."""
    from trl.trainer.sft_trainer import SFTTrainer

    logprobs = problem.logprobs_BT() * problem.mask_BT
    zero = torch.zeros(())
    said = SimpleNamespace(
        log_probs=logprobs, label_mask=problem.mask_BT, entropy=zero, is_top1=zero
    )
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=False),
        aux_loss_enabled=False,
        accelerator=SimpleNamespace(
            parallelism_config=None, num_processes=1, gather_for_metrics=lambda value: value
        ),
        compute_loss_func=None,
        label_smoother=None,
        args=SimpleNamespace(loss_type=loss_type, average_tokens_across_devices=True),
        get_tp_size=lambda: 1,
        _metrics={"eval": {"entropy": [], "mean_token_accuracy": []}},
        _total_train_tokens=0,
    )
    compute: Any = SFTTrainer.compute_loss
    loss: Tensor = compute(trainer, lambda **_: said, {}, num_items_in_batch=problem.window_tokens)
    return loss


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("oracle", [Problem.cross_entropy, trl_loss])
def test_value_and_gradient_are_those_of(oracle: Any, seed: int) -> None:
    problem = Problem(seed)
    got, expected = problem.ours(), oracle(problem)
    assert abs(float((got - expected).detach())) <= EPSILON
    difference = problem.gradient(got) - problem.gradient(expected)
    assert float(difference.abs().max()) <= EPSILON


@pytest.mark.parametrize("seed", range(5))
def test_the_value_and_gradient_of_dft_are_those_of_trl(seed: int) -> None:
    problem = Problem(seed)
    got, expected = problem.ours(dft=True), trl_loss(problem, "dft")
    assert abs(float((got - expected).detach())) <= EPSILON
    difference = problem.gradient(got) - problem.gradient(expected)
    assert float(difference.abs().max()) <= EPSILON


def test_dft_scales_the_gradient_of_a_token_by_its_probability() -> None:
    logprobs_BT = torch.tensor([[0.0, 0.5, 0.25]]).log().requires_grad_()
    mask_BT = torch.tensor([[0.0, 1.0, 1.0]])
    batch = {"mask": mask_BT, WINDOW_TOKENS: 2.0}
    stats = {Stat.LOGPROBS: torch.where(mask_BT > 0, logprobs_BT, 0.0)}
    loss, metrics = SupervisedLoss(dft=True)(TorchNamespace(), stats, batch)
    (gradient_BT,) = torch.autograd.grad(loss, logprobs_BT)
    assert loss.item() == pytest.approx((0.5 * math.log(2) + 0.25 * math.log(4)) / 2)
    assert metrics["nll"].item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert gradient_BT.tolist() == [[0.0, -0.25, -0.125]]  # -p / 2


def test_an_empty_row_gets_no_gradient() -> None:
    problem = Problem(0)
    gradient_BTV = problem.gradient(problem.ours())
    assert not gradient_BTV[3].any()
    assert gradient_BTV[problem.mask_BT].any()


@pytest.mark.parametrize("dft", [False, True])
def test_micro_batches_add_up_to_the_window(dft: bool) -> None:
    problem, objective = Problem(0), SupervisedLoss(dft=dft)
    logprobs, mask = problem.logprobs_BT().detach(), problem.mask_BT.double()
    parts = [
        objective(
            TorchNamespace(),
            {Stat.LOGPROBS: logprobs[rows]},
            {"mask": mask[rows], WINDOW_TOKENS: problem.window_tokens},
        )[0]
        for rows in (slice(0, 2), slice(2, 3), slice(3, 5))
    ]
    assert abs(float(sum(parts) - problem.ours(dft=dft).detach())) <= EPSILON


def test_it_needs_no_more_than_the_array_api_standard() -> None:
    import array_api_strict

    problem = Problem(0)
    logprobs, mask = problem.logprobs_BT().detach().numpy(), problem.mask_BT.double().numpy()
    stats = {Stat.LOGPROBS: array_api_strict.asarray(logprobs)}
    batch = {"mask": array_api_strict.asarray(mask), WINDOW_TOKENS: problem.window_tokens}
    loss, metrics = SupervisedLoss()(StrictNamespace(), stats, batch)
    expected = -np.sum(logprobs * mask) / problem.window_tokens
    assert abs(float(loss) - float(expected)) <= EPSILON
    assert not metrics
    weighted, metrics = SupervisedLoss(dft=True)(StrictNamespace(), stats, batch)
    assert float(metrics["nll"]) == float(loss)
    expected = -np.sum(logprobs * np.exp(logprobs) * mask) / problem.window_tokens
    assert abs(float(weighted) - float(expected)) <= EPSILON
