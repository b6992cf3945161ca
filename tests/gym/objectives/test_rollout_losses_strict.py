"""The losses of sampled answers need nothing but the array API standard."""

from typing import Any

import numpy as np
import pytest

from tests.gym.objectives.strict import StrictNamespace, strict
from tests.gym.objectives.test_grpo_trl import EPSILON, Answers
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.constants import WINDOW_ROWS, WINDOW_TOKENS
from zoo.gym.objectives.grpo import GroupRelativeLoss
from zoo.gym.objectives.ppo import ProximalLoss
from zoo.gym.objectives.rloo import LeaveOneOutLoss

LOSSES: list[Any] = [
    *(
        GroupRelativeLoss(kind, level, beta=0.1, entropy_coef=0.1, off_policy_threshold=0.01)
        for kind in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
        for level in ("token", "sequence")
    ),
    GroupRelativeLoss(delta=1.5),
    LeaveOneOutLoss(),
    ProximalLoss(),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("on_policy", [True, False])
def test_a_loss_needs_no_more_than_the_array_api_standard(loss: Any, on_policy: bool) -> None:
    answers = Answers(4)
    arrays = {
        "mask": answers.mask.double(),
        "advantages": answers.advantages,
        "ref_logprobs": answers.ref,
        "token_advantages": answers.ref,
        "returns": answers.old,
        "old_values": answers.ref,
    }
    if not on_policy or isinstance(loss, ProximalLoss):
        arrays["old_logprobs"] = answers.old
    stats = {
        Stat.LOGPROBS: answers.logprobs.detach(),
        Stat.ENTROPY: answers.entropies.detach(),
        Stat.VALUES: answers.old,
    }
    window = {WINDOW_TOKENS: 21.0, WINDOW_ROWS: 8.0}
    wanted, metrics = loss(TorchNamespace(), stats, {**arrays, **window})
    plain: dict[str, Any] = {name: strict(value.numpy()) for name, value in arrays.items()}
    found, seen = loss(
        StrictNamespace(), {s: strict(v.numpy()) for s, v in stats.items()}, {**plain, **window}
    )
    assert abs(float(found) - wanted.item()) <= EPSILON
    assert seen.keys() == metrics.keys()
    assert all(np.isclose(float(seen[name]), metrics[name].item()) for name in metrics)
