"""ORPO, CPO, SimPO and AlphaPO against TRL's own code, from logits: every loss and option."""

from typing import Any

import pytest
import torch

from tests.gym.objectives.pair_problems import Logits, Pairs, close, trl_without_reference
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.cpo import CpoLoss
from zoo.gym.objectives.orpo import OrpoLoss, log_odds

pytestmark = pytest.mark.filterwarnings("ignore:You are importing from")

SEEDS = range(3)
METRICS = {
    "accuracy": "rewards/accuracies",
    "margin": "rewards/margins",
    "chosen_reward": "rewards/chosen",
    "rejected_reward": "rewards/rejected",
}


def trl_orpo(logits: Logits, **options: Any) -> tuple[torch.Tensor, dict[str, float]]:
    from trl.experimental.orpo.orpo_trainer import ORPOTrainer

    return trl_without_reference(ORPOTrainer, logits, **options)


def trl_cpo(logits: Logits, loss: CpoLoss) -> tuple[torch.Tensor, dict[str, float]]:
    from trl.experimental.cpo.cpo_trainer import CPOTrainer

    return trl_without_reference(
        CPOTrainer,
        logits,
        beta=loss.beta,
        loss_type=loss.loss,
        cpo_alpha=loss.cpo_alpha,
        simpo_gamma=loss.gamma,
        alpha=loss.alpha,
        label_smoothing=loss.label_smoothing,
    )


def close_metrics(got: dict[str, torch.Tensor], expected: dict[str, float]) -> None:
    for ours, theirs in METRICS.items():
        # TRL counts accuracy in float32
        assert float(got[ours].detach()) == pytest.approx(expected[theirs], abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_orpo_is_that_of_trl(beta: float, seed: int) -> None:
    logits = Logits(seed)
    got, metrics = logits.problem.ours(OrpoLoss(beta))
    expected, theirs = trl_orpo(logits, beta=beta)
    logits.assert_same(got, expected)
    close_metrics(metrics, theirs)
    close(logits.problem.strictly(OrpoLoss(beta)), got)


CPO = [
    *(
        CpoLoss(loss=kind, beta=beta)
        for kind in ("sigmoid", "hinge", "ipo", "simpo")
        for beta in (0.1, 2.0)
    ),
    CpoLoss(cpo_alpha=0.0),
    CpoLoss(loss="simpo", cpo_alpha=0.0, gamma=1.5),
    CpoLoss(label_smoothing=0.1),
    CpoLoss(loss="simpo", label_smoothing=0.2),
    CpoLoss(loss="simpo", alpha=0.3, cpo_alpha=0.0),
    CpoLoss(loss="simpo", alpha=-0.4),
    CpoLoss(alpha=0.05),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", CPO, ids=str)
def test_cpo_is_that_of_trl(loss: CpoLoss, seed: int) -> None:
    logits = Logits(seed)
    got, metrics = logits.problem.ours(loss)
    expected, theirs = trl_cpo(logits, loss)
    logits.assert_same(got, expected)
    close_metrics(metrics, theirs)
    close(logits.problem.strictly(loss), got)


@pytest.mark.parametrize("loss", ["sigmoid", "hinge"])
def test_answers_without_a_learned_token_count_as_in_trl(loss: Any) -> None:
    logits = Logits(0, empty=True)
    got, _ = logits.problem.ours(CpoLoss(loss=loss))
    expected, _ = trl_cpo(logits, CpoLoss(loss=loss))
    logits.assert_same(got, expected)


@pytest.mark.parametrize("loss", [OrpoLoss(), *CPO], ids=str)
@pytest.mark.parametrize("logprob", [0.0, -1e-9, -0.6931471805599453, -200.0])
def test_extreme_answers_give_finite_losses_and_gradients(loss: Any, logprob: float) -> None:
    problem = Pairs(0)
    problem.logprobs_BT = torch.full_like(problem.logprobs_BT, logprob).float().requires_grad_()
    got, _ = problem.ours(loss)
    assert torch.isfinite(got)
    assert torch.isfinite(problem.gradient(got)).all()


def test_log_odds_are_accurate_near_zero_and_one() -> None:
    p = torch.tensor([1e-30, 0.2, 0.5, 0.75, 1 - 1e-5], dtype=torch.float64)
    # log(p / (1 - p)): log(1e-30), log(0.25), 0, log(3), log(99999)
    expected = torch.tensor([-69.0775527898, -1.3862943611, 0, 1.0986122887, 11.5129154649])
    assert torch.allclose(log_odds(TorchNamespace(), p.log()).float(), expected)


@pytest.mark.parametrize("loss", [OrpoLoss(), *CPO], ids=str)
def test_micro_batches_add_up_to_the_window(loss: Any) -> None:
    problem = Pairs(0)
    whole, _ = problem.ours(loss)
    close(torch.stack(problem.parts(loss)).sum(), whole)
