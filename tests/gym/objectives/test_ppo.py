"""PPO against figures frozen from TRL 1.10.0, and by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.ppo import ProximalLoss, generalised_advantages, token_rewards, whitened

CASES = json.loads((Path(__file__).parent / "golden/ppo.json").read_text())
EPSILON = 1e-12


def arrays(case: dict[str, Any]) -> dict[str, Any]:
    return {key: np.array(value) for key, value in case["given"].items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["options"]))
def test_advantages_and_returns_are_the_frozen_ones(case: dict[str, Any]) -> None:
    given, options = arrays(case), case["options"]
    rows = list(zip(given["scores"], given["logprobs"], given["ref_logprobs"], strict=True))
    rewards = [token_rewards(*row, 0.05, options["kl_estimator"]) for row in rows]
    if options["whiten_rewards"]:
        rewards = whitened(rewards, shift=False)
    pairs = zip(rewards, given["values"], strict=True)
    found = [generalised_advantages(reward, values, 0.9, 0.8) for reward, values in pairs]
    returns = np.stack(found) + given["values"]
    assert np.abs(returns - np.array(case["wanted"]["returns"])).max() <= EPSILON
    assert np.abs(np.stack(whitened(found)) - case["wanted"]["advantages"]).max() <= EPSILON


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["options"]))
def test_loss_and_gradient_are_the_frozen_ones(case: dict[str, Any]) -> None:
    given, wanted = arrays(case), case["wanted"]
    logprobs = torch.from_numpy(given["new_logprobs"]).requires_grad_()
    values = torch.from_numpy(given["vpred"]).requires_grad_()
    batch = {
        "mask": torch.ones(logprobs.shape, dtype=torch.float64),
        "old_logprobs": torch.from_numpy(given["logprobs"]),
        "old_values": torch.from_numpy(given["values"]),
        "token_advantages": torch.tensor(wanted["advantages"], dtype=torch.float64),
        "returns": torch.tensor(wanted["returns"], dtype=torch.float64),
        WINDOW_TOKENS: float(logprobs.numel()),
    }
    stats = {Stat.LOGPROBS: logprobs, Stat.VALUES: values}
    loss, metrics = ProximalLoss()(TorchNamespace(), stats, batch)
    assert abs(loss.item() - wanted["loss"]) <= EPSILON
    assert abs(metrics["value_loss"].item() - wanted["vf_loss"]) <= EPSILON
    slopes = torch.autograd.grad(loss, [logprobs, values])
    for slope, name in zip(slopes, ("d_new_logprobs", "d_vpred"), strict=True):
        assert np.abs(slope.numpy() - np.array(wanted[name])).max() <= EPSILON


def test_advantages_by_hand() -> None:
    # surprises: 0 + 1 * 2 - 1 = 1, 3 - 2 = 1; the first also gets half of the second
    found = generalised_advantages(np.array([0.0, 3.0]), np.array([1.0, 2.0]), 1.0, 0.5)
    assert found.tolist() == [1.5, 1.0]


def test_the_score_is_the_reward_of_the_last_token() -> None:
    same = np.array([-1.0, -2.0])
    assert token_rewards(4.0, same, same, 0.5).tolist() == [0.0, 4.0]
    # likelier than the reference by 1 and less likely by 2 nats: -0.5 * 1, 4 + 0.5 * 2
    assert token_rewards(4.0, same, same + np.array([-1, 2]), 0.5).tolist() == [-0.5, 5.0]


def test_what_is_masked_has_no_gradient() -> None:
    logprobs = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    values = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    ones = torch.ones(1, 3, dtype=torch.float64)
    batch = {
        "mask": torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64),
        "old_logprobs": 0 * ones,
        "old_values": ones,
        "token_advantages": 2 * ones,
        "returns": 3 * ones,
        WINDOW_TOKENS: 2.0,
    }
    stats = {Stat.LOGPROBS: logprobs, Stat.VALUES: values}
    loss, _ = ProximalLoss(value_coef=1.0)(TorchNamespace(), stats, batch)
    d_logprobs, d_values = torch.autograd.grad(loss, [logprobs, values])
    assert d_logprobs.tolist() == [[0, -1, -1]]  # -2 / 2
    assert d_values.tolist() == [[0, -1, -1]]  # (1 - 3) / 2
