"""DPO and the losses of its family against TRL's own code: every loss and every option."""

from typing import Any

import pytest
import torch

from tests.gym.objectives.pair_problems import EPSILON, Pairs, assert_same, close, trl_dpo
from zoo.gym.objectives.dpo import DIVERGING, LOSSES, SMOOTHED, SORTING, DpoLoss

SEEDS = range(3)
SMOOTHED_IN_TRL = SMOOTHED - {"sigmoid"}
WEIGHTED = sorted(set(LOSSES) - SORTING - {"sft", "hinge"})
"""The losses whose pairs TRL can weight; its hinge loss has no gradient with weights."""


def smoothing(name: str) -> float:
    return 0.1 if name in SMOOTHED_IN_TRL else 0.0


def loss(name: str, **options: Any) -> DpoLoss:
    given = {"beta": 0.3, "label_smoothing": smoothing(name), **options}
    return DpoLoss(terms=((name, 1.0),), **given)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_is_that_of_trl(name: str, seed: int) -> None:
    problem = Pairs(seed)
    got, _ = problem.ours(loss(name))
    expected, _ = trl_dpo(problem, beta=0.3, loss_types=[name], label_smoothing=smoothing(name))
    assert_same(problem, got, expected)
    close(problem.strictly(loss(name)), got)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", sorted(DIVERGING))
@pytest.mark.parametrize("kind", ["forward_kl", "js_divergence"])
def test_each_divergence_is_that_of_trl(kind: str, name: str, seed: int) -> None:
    problem = Pairs(seed)
    got, _ = problem.ours(loss(name, f_divergence=kind))
    given = {"beta": 0.3, "loss_types": [name], "label_smoothing": smoothing(name)}
    expected, _ = trl_dpo(problem, **given, f_divergence_type=kind)
    assert_same(problem, got, expected)
    strictly = problem.strictly(loss(name, f_divergence=kind))
    close(strictly, got)


@pytest.mark.parametrize("order", [0.3, 0.5, 1.0, 2.0])
def test_the_alpha_divergence_is_that_of_trl_in_its_float32(order: float) -> None:
    problem = Pairs(0)
    problem.logprobs_BT = problem.logprobs_BT.detach().float().requires_grad_()
    problem.ref_BT = problem.ref_BT.float()
    got, _ = problem.ours(loss("sigmoid", f_divergence="alpha_divergence", f_alpha=order))
    given = {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": order}
    expected, _ = trl_dpo(problem, beta=0.3, **given)
    assert abs(float((got - expected).detach())) <= 1e-6 * abs(float(got.detach()))
    ours, theirs = problem.gradient(got), problem.gradient(expected)
    assert float((ours - theirs).abs().max()) <= 1e-6 * float(ours.abs().max())


def test_the_alpha_divergence_is_its_definition() -> None:
    problem = Pairs(1)
    got, _ = problem.ours(loss("sigmoid", f_divergence="alpha_divergence", f_alpha=0.4))
    mask = problem.mask_BT.double()
    r = ((problem.logprobs_BT - problem.ref_BT) * mask).sum(1)
    score = (torch.exp(r) ** (0.4 - 1) - 1) / (0.4 - 1)
    expected = -torch.nn.functional.logsigmoid(0.3 * (score[0::2] - score[1::2])).mean()
    assert_same(problem, got, expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"sft"}))
def test_weights_of_tokens_are_those_of_trl(name: str, seed: int) -> None:
    problem = Pairs(seed)
    got, _ = problem.ours(loss(name), ld_alpha=0.5)
    given = {"beta": 0.3, "loss_types": [name], "label_smoothing": smoothing(name)}
    expected, _ = trl_dpo(problem, **given, ld_alpha=0.5)
    assert_same(problem, got, expected)
    assert abs(float((got - problem.ours(loss(name))[0]).detach())) > 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_pairs_are_those_of_trl(name: str, seed: int) -> None:
    problem = Pairs(seed)
    got, _ = problem.ours(loss(name, use_weighting=True))
    given = {"beta": 0.3, "loss_types": [name], "label_smoothing": smoothing(name)}
    expected, _ = trl_dpo(problem, **given, use_weighting=True)
    assert_same(problem, got, expected)


def test_weights_of_pairs_multiply_the_hinge_loss() -> None:
    problem = Pairs(0)
    got, _ = problem.ours(loss("hinge", use_weighting=True))
    mask = problem.mask_BT.double()
    likely = (problem.logprobs_BT.detach() - problem.log_sum_sq_BT) * mask
    weights = torch.exp(likely.sum(1) / mask.sum(1).clamp(min=1))
    r = ((problem.logprobs_BT - problem.ref_BT) * mask).sum(1)
    single = torch.relu(1 - 0.3 * (r[0::2] - r[1::2]))
    assert_same(problem, got, (single * weights[0::2] * weights[1::2]).mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_weighted_sum_of_losses_is_that_of_trl(seed: int) -> None:
    problem = Pairs(seed)
    names, weights = ["sigmoid", "sft", "bco_pair", "aot"], [1.0, 0.5, 0.2, 2.0]
    objective = DpoLoss(terms=tuple(zip(names, weights, strict=True)))
    assert objective.coupled
    expected, _ = trl_dpo(problem, loss_types=names, loss_weights=weights)
    assert_same(problem, problem.ours(objective)[0], expected)


@pytest.mark.parametrize("tau", [0.05, 1.0])
def test_the_temperature_of_discopop_is_that_of_trl(tau: float) -> None:
    problem = Pairs(2)
    got, _ = problem.ours(loss("discopop", discopop_tau=tau))
    expected, _ = trl_dpo(problem, beta=0.3, loss_types=["discopop"], discopop_tau=tau)
    assert_same(problem, got, expected)


def test_metrics_are_those_of_trl() -> None:
    problem = Pairs(0)
    _, got = problem.ours(DpoLoss(beta=0.3))
    _, expected = trl_dpo(problem, beta=0.3)
    names = {
        "accuracy": "rewards/accuracies",
        "margin": "rewards/margins",
        "chosen_reward": "rewards/chosen",
        "rejected_reward": "rewards/rejected",
    }
    for ours, theirs in names.items():
        tolerance = 1e-7 if ours == "accuracy" else EPSILON  # which TRL counts in float32
        assert abs(float(got[ours].detach()) - expected[theirs]) <= tolerance


def test_smoothed_labels_are_the_cross_entropy_of_soft_labels() -> None:
    problem = Pairs(0)
    got, _ = problem.ours(DpoLoss(beta=0.3, label_smoothing=0.2))
    r = ((problem.logprobs_BT - problem.ref_BT) * problem.mask_BT).sum(1)
    won = torch.sigmoid(0.3 * (r[0::2] - r[1::2]))
    expected = -(0.8 * won.log() + 0.2 * (1 - won).log()).mean()
    assert_same(problem, got, expected)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("gap", [-500.0, 500.0])
def test_answers_far_apart_give_finite_losses_and_gradients(name: str, gap: float) -> None:
    problem = Pairs(0)
    problem.logprobs_BT = (problem.ref_BT + gap).float().requires_grad_()
    for kind in ("reverse_kl", "forward_kl", "alpha_divergence"):
        got, _ = problem.ours(loss(name, f_divergence=kind))
        assert torch.isfinite(got)
        assert torch.isfinite(problem.gradient(got)).all()


@pytest.mark.parametrize("name", sorted(set(LOSSES) - SORTING))
def test_micro_batches_add_up_to_the_window(name: str) -> None:
    problem = Pairs(0)
    whole, _ = problem.ours(loss(name))
    close(torch.stack(problem.parts(loss(name))).sum(), whole)
