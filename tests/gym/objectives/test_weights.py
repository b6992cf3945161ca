"""The weight of a row multiplies its part of the loss, and nothing else, in every method."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.gym.objectives.pair_problems import Pairs
from tests.gym.objectives.strict import StrictNamespace, strict
from zoo.backends.base import Objective, Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.data.units import MARGIN, RATING, WEIGHT
from zoo.gym.objectives.constants import (
    WINDOW_FIRST_TOKENS,
    WINDOW_ROWS,
    WINDOW_TOKENS,
    WINDOW_UNITS,
)
from zoo.gym.objectives.cpo import CpoLoss
from zoo.gym.objectives.distillation import DistillationLoss
from zoo.gym.objectives.dpo import LOSSES, SORTING, DpoLoss
from zoo.gym.objectives.grpo import ADVANTAGES, OLD_LOGPROBS, GroupRelativeLoss
from zoo.gym.objectives.kto import WINDOW_BAD, WINDOW_GOOD, WINDOW_KL, KtoLoss
from zoo.gym.objectives.orpo import OrpoLoss
from zoo.gym.objectives.ppo import OLD_VALUES, RETURNS, TOKEN_ADVANTAGES, ProximalLoss
from zoo.gym.objectives.reward_model import RewardLoss
from zoo.gym.objectives.rloo import LeaveOneOutLoss
from zoo.gym.objectives.tdpo import TdpoLoss
from zoo.gym.objectives.unlearning import (
    WINDOW_FORGET,
    WINDOW_FORGET_TOKENS,
    WINDOW_RETAIN_TOKENS,
    UnlearningLoss,
)

WEIGHTS = (1.0, 2.0, 0.25, 7.0)
SINGLE = {name: 0.1 if name in ("exo_pair", "robust") else 0.0 for name in LOSSES}
PAIRED: dict[str, Objective] = {
    **{
        name: DpoLoss(terms=((name, 1.0),), label_smoothing=SINGLE[name])
        for name in sorted(set(LOSSES) - SORTING)
    },
    "wpo": DpoLoss(use_weighting=True),
    "cpo": CpoLoss(),
    "simpo": CpoLoss(loss="simpo", cpo_alpha=0.5),
    "orpo": OrpoLoss(),
    "tdpo": TdpoLoss(),
    "rm": RewardLoss(center=0.1),
}
ALONE: dict[str, Objective] = {
    "kto": KtoLoss(good_weight=1.5),
    "npo": UnlearningLoss(retain=0.3),
    "simnpo": UnlearningLoss(loss="simnpo"),
    "grpo": GroupRelativeLoss(loss_type="grpo", beta=0.1, entropy_coef=0.2),
    "dapo": GroupRelativeLoss(),
    "gspo": GroupRelativeLoss(loss_type="grpo", level="sequence"),
    "dr_grpo": GroupRelativeLoss(loss_type="dr_grpo"),
    "luspo": GroupRelativeLoss(loss_type="luspo"),
    "rloo": LeaveOneOutLoss(),
    "ppo": ProximalLoss(),
    "lessons": DistillationLoss("reverse_kl", alpha=0.5),
}
EACH = [(PAIRED[name], 2) for name in PAIRED] + [(ALONE[name], 1) for name in ALONE]
NAMES = [*PAIRED, *ALONE]


class Rows:
    """Random statistics of four pairs, or of four rows, with the constants of the window."""

    def __init__(self, rows_each: int) -> None:
        pairs, rows = Pairs(3, pairs=4, empty=False), 4 * rows_each
        random = torch.Generator().manual_seed(1)
        self.rows_each = rows_each
        self.stats: dict[Stat, Tensor] = {
            stat: -torch.rand(pairs.mask_BT.shape, generator=random, dtype=torch.float64)[:rows]
            for stat in Stat
        }
        some_BT = torch.rand(pairs.mask_BT.shape, generator=random, dtype=torch.float64)[:rows]
        sign_B = torch.tensor([1.0, -1.0] * 4)[:rows]
        arrays = {name: x[:rows] for name, x in pairs.batch().items() if isinstance(x, Tensor)}
        self.arrays: dict[str, Tensor] = {
            **arrays,
            MARGIN: torch.full((rows,), 0.5),
            RATING: sign_B,
            ADVANTAGES: sign_B.double(),
            OLD_LOGPROBS: self.stats[Stat.LOGPROBS] + 0.05,
            OLD_VALUES: some_BT,
            RETURNS: some_BT - 0.2,
            TOKEN_ADVANTAGES: some_BT * sign_B[:, None],
        }
        counts = (WINDOW_TOKENS, WINDOW_FIRST_TOKENS, WINDOW_FORGET_TOKENS, WINDOW_RETAIN_TOKENS)
        rowwise = (WINDOW_UNITS, WINDOW_ROWS, WINDOW_GOOD, WINDOW_BAD, WINDOW_FORGET)
        self.constants = dict.fromkeys(counts, 9.0) | dict.fromkeys(rowwise, 4.0) | {WINDOW_KL: 0.1}

    def loss(
        self, objective: Objective, weights: tuple[float, ...] | None, place: int | None = None
    ) -> tuple[float, list[Tensor], dict[str, float]]:
        """Returns loss, gradients by statistic and metrics of all units, or of one of them."""
        size = self.rows_each
        part = slice(None) if place is None else slice(place * size, (place + 1) * size)
        stats = {name: self.stats[name][part].clone().requires_grad_() for name in objective.needs}
        batch: dict[str, Any] = {name: x[part] for name, x in self.arrays.items()} | self.constants
        if weights is not None:
            batch[WEIGHT] = torch.tensor(weights).repeat_interleave(size)[part]
        loss, metrics = objective(TorchNamespace(), stats, batch)
        gradients = torch.autograd.grad(loss, [*stats.values()], allow_unused=True)
        found = [
            torch.zeros_like(x) if gradient is None else gradient
            for gradient, x in zip(gradients, stats.values(), strict=True)
        ]
        return (
            loss.item(),
            found,
            {name: torch.as_tensor(value).detach().item() for name, value in metrics.items()},
        )


@pytest.mark.parametrize(("objective", "rows_each"), EACH, ids=NAMES)
def test_loss_and_gradient_of_a_row_are_its_weight_times_those_without(
    objective: Objective, rows_each: int
) -> None:
    rows = Rows(rows_each)
    whole, gradients, _ = rows.loss(objective, WEIGHTS)
    plain = [rows.loss(objective, None, place) for place in range(4)]
    expected = sum(weight * loss for weight, (loss, _, _) in zip(WEIGHTS, plain, strict=True))
    assert whole == pytest.approx(expected, rel=1e-12)
    for number, gradient in enumerate(gradients):
        parts = [weight * one[1][number] for weight, one in zip(WEIGHTS, plain, strict=True)]
        torch.testing.assert_close(gradient, torch.cat(parts), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("objective", "rows_each"), EACH, ids=NAMES)
def test_weights_of_one_change_no_bit(objective: Objective, rows_each: int) -> None:
    rows = Rows(rows_each)
    loss, gradients, metrics = rows.loss(objective, None)
    again, weighted, same = rows.loss(objective, (1.0,) * 4)
    assert (again, same) == (loss, metrics)
    assert all(map(torch.equal, gradients, weighted))


@pytest.mark.parametrize(("objective", "rows_each"), EACH, ids=NAMES)
def test_metrics_of_the_model_are_of_the_rows_as_they_are(
    objective: Objective, rows_each: int
) -> None:
    rows = Rows(rows_each)
    plain, weighted = (rows.loss(objective, each)[2] for each in (None, WEIGHTS))
    plain.pop("value_loss", None)  # a part of the loss
    assert plain == {name: weighted[name] for name in plain}


@pytest.mark.parametrize(("objective", "rows_each"), EACH, ids=NAMES)
def test_weights_take_only_functions_that_every_engine_has(
    objective: Objective, rows_each: int
) -> None:
    rows = Rows(rows_each)
    arrays = {name: strict(x.numpy()) for name, x in rows.arrays.items()}
    weights = strict(torch.tensor(WEIGHTS).double().repeat_interleave(rows_each).numpy())
    batch: Any = arrays | rows.constants | {WEIGHT: weights}
    stats = {name: strict(rows.stats[name].numpy()) for name in objective.needs}
    xp: Any = StrictNamespace()
    loss, _ = objective(xp, stats, batch)
    assert float(loss) == pytest.approx(rows.loss(objective, WEIGHTS)[0], rel=1e-9)
