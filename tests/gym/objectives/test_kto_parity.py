"""KTO against TRL's own code: both losses, weights, and the estimate of the divergence."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gym.objectives.pair_problems import Pairs, accelerator, close
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.data.units import RATING
from zoo.gym.objectives.constants import WINDOW_UNITS
from zoo.gym.objectives.kto import WINDOW_BAD, WINDOW_GOOD, WINDOW_KL, KtoLoss, divergence


class Rated(Pairs):
    """Random rated answers; `shift` moves the gains of mismatched answers."""

    def __init__(self, seed: int, shift: float = 0.0, *, good: float = 0.5) -> None:
        super().__init__(seed)
        random = np.random.default_rng(seed)
        rows = len(self.mask_BT)
        self.good_B = torch.from_numpy(random.random(rows) < good)
        self.policy_kl_B = torch.from_numpy(random.normal(shift, 1, rows))
        self.ref_kl_B = torch.from_numpy(random.normal(0, 1, rows))

    def batch(self, ld_alpha: float | None = None) -> dict[str, Any]:
        return super().batch(ld_alpha) | {
            RATING: 2 * self.good_B.double() - 1,
            WINDOW_UNITS: float(len(self.good_B)),
            WINDOW_KL: divergence((self.policy_kl_B - self.ref_kl_B).tolist()),
            WINDOW_GOOD: float(self.good_B.sum()),
            WINDOW_BAD: float((~self.good_B).sum()),
        }


def trl_kto(problem: Rated, loss: KtoLoss) -> tuple[Tensor, dict[str, float]]:
    """Returns TRL's own KTO loss over our log-probabilities, and its metrics by name."""
    from trl.trainer.kto_trainer import KTOTrainer

    mask = problem.mask_BT.long()
    logprobs = (problem.logprobs_BT * problem.mask_BT)[:, 1:]
    zeros = torch.zeros_like(logprobs)
    said = SimpleNamespace(log_probs=logprobs, entropy=zeros, mean_logits=zeros)
    metrics: dict[str, list[float]] = defaultdict(list)
    trainer = SimpleNamespace(
        model=torch.nn.Module(),
        accelerator=accelerator(),
        aux_loss_enabled=False,
        precompute_ref_logps=True,
        calculate_KL=loss.loss == "kto",
        loss_type=loss.loss,
        beta=loss.beta,
        desirable_weight=loss.good_weight,
        undesirable_weight=loss.bad_weight,
        _compute_kl_logps=lambda model, batch: problem.policy_kl_B,
        _metrics={"train": metrics},
        _total_train_tokens=0,
        _tp_size=1,
    )
    batch = {
        "input_ids": torch.zeros_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
        "label": problem.good_B,
        "ref_logps": (problem.ref_BT * problem.mask_BT).sum(1),
        "ref_KL_logps": problem.ref_kl_B,
    }
    compute: Any = KTOTrainer._compute_loss
    found = compute(trainer, lambda **_: said, batch, return_outputs=False)
    return found, {name: values[-1] for name, values in metrics.items()}


LOSSES = [
    KtoLoss(),
    KtoLoss(beta=0.7, good_weight=1.3, bad_weight=0.4),
    KtoLoss(loss="apo_zero_unpaired", beta=0.3),
    KtoLoss(loss="apo_zero_unpaired", good_weight=0.2),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shift", [1.0, -1.0])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_each_loss_is_that_of_trl(loss: KtoLoss, shift: float, seed: int) -> None:
    problem = Rated(seed, shift)
    assert (problem.batch()[WINDOW_KL] > 0) == (shift > 0)
    got, metrics = problem.ours(loss)
    expected, theirs = trl_kto(problem, loss)
    close(got, expected)
    close(problem.gradient(got), problem.gradient(expected))
    names = {"margin": "margins", "chosen_reward": "chosen", "rejected_reward": "rejected"}
    for ours, name in names.items():
        close(metrics[ours], torch.tensor(theirs[f"rewards/{name}"], dtype=torch.float64))
    if loss.loss == "kto":
        close(metrics["kl"], torch.tensor(theirs["kl"], dtype=torch.float64))


@pytest.mark.parametrize("good", [0.0, 1.0])
def test_answers_of_one_rating_are_those_of_trl(good: float) -> None:
    problem = Rated(0, good=good)
    got, metrics = problem.ours(KtoLoss())
    expected, _ = trl_kto(problem, KtoLoss())
    close(got, expected)
    close(problem.gradient(got), problem.gradient(expected))
    assert all(torch.isfinite(torch.as_tensor(value)) for value in metrics.values())


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_it_runs_on_the_array_api_standard_and_adds_up_over_micro_batches(loss: KtoLoss) -> None:
    problem = Rated(1, 1.0)
    whole, _ = problem.ours(loss)
    close(problem.strictly(loss), whole)
    close(torch.stack(problem.parts(loss)).sum(), whole)


def test_an_answer_is_right_on_its_side_of_the_divergence() -> None:
    # gains 2, 2, -1, -1 with ratings +, -, +, - and z = 1: right, wrong, wrong, right
    gains = torch.tensor([[0, 2], [0, 2], [0, -1], [0, -1]], dtype=torch.float64)
    batch = {
        "mask": torch.tensor([[0.0, 1.0]] * 4),
        RATING: torch.tensor([1.0, -1, 1, -1]),
        "ref_logprobs": torch.zeros(4, 2),
        WINDOW_UNITS: 4.0,
        WINDOW_KL: 1.0,
        WINDOW_GOOD: 2.0,
        WINDOW_BAD: 2.0,
    }
    _, metrics = KtoLoss()(TorchNamespace(), {Stat.LOGPROBS: gains}, batch)
    assert float(metrics["accuracy"]) == 0.5
