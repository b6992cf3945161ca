"""The group-relative losses against TRL's own code, in value and gradient, without a model.

Legend: B answers, T positions.
"""

from collections import defaultdict
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gym.train.methods.pairs import method_with
from zoo.backends.base import Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.config import load_values
from zoo.gym.data import Example, Unit
from zoo.gym.objectives.advantages import group_advantages
from zoo.gym.objectives.constants import WINDOW_ROWS, WINDOW_SELECTED, WINDOW_TOKENS
from zoo.gym.objectives.grpo import GroupRelativeLoss
from zoo.gym.train.buffer import Buffer, select_tokens

EPSILON = 1e-12
LONGEST = 40
SHARPNESS = (1.0, 1.0625)
"""TRL rounds them to float32, which changes neither."""


class Answers:
    """Random statistics of answers in groups of four; row 2 has nothing to learn."""

    def __init__(self, seed: int, *, groups: int = 2, width: int = 9) -> None:
        random = torch.Generator().manual_seed(seed)
        shape = (4 * groups, width)

        def normal(scale: float, *size: int) -> Tensor:
            return scale * torch.randn(size or shape, dtype=torch.float64, generator=random)

        self.logprobs = (normal(1.0) - 2).requires_grad_()
        self.entropies = normal(1.0).abs().requires_grad_()
        self.old = self.logprobs.detach() + normal(0.3)
        self.ref = self.logprobs.detach() + normal(0.5)
        self.mask = torch.rand(shape, dtype=torch.float64, generator=random) < 0.6
        self.mask[2], self.mask[:, 0] = False, False
        rewards = normal(1.0, groups, 4).numpy()
        self.advantages = torch.from_numpy(group_advantages(rewards, "group")).flatten()

    def selected(self, share: float) -> tuple[Tensor, float]:
        """The mask of the tokens with the highest entropy, as a step of GRPO makes it."""
        width = self.mask.shape[1]
        rows = [Example(np.zeros(width, int), row.numpy(), "", False) for row in self.mask]
        entropies = list(self.entropies.detach().numpy())
        found = select_tokens(Buffer((Unit(tuple(rows)),), 1, 1), entropies, share)
        (unit,) = found.units
        masks = np.stack([row.extras["selected"] for row in unit.rows]).astype(float)
        return torch.from_numpy(masks), found.constants[WINDOW_SELECTED]

    def ours(self, loss: GroupRelativeLoss, share: float, *, on_policy: bool) -> Tensor:
        batch: dict[str, Any] = {
            "mask": self.mask.double(),
            "advantages": self.advantages,
            "ref_logprobs": self.ref,
            WINDOW_TOKENS: float(self.mask.sum()),
            WINDOW_ROWS: float(len(self.mask)),
        }
        if not on_policy:
            batch["old_logprobs"] = self.old
        if share < 1:
            batch["selected"], batch[WINDOW_SELECTED] = self.selected(share)
        stats = {Stat.LOGPROBS: self.logprobs, Stat.ENTROPY: self.entropies}
        found: Tensor = loss(TorchNamespace(), {s: stats[s] for s in loss.needs}, batch)[0]
        return found

    def trl(self, loss: GroupRelativeLoss, share: float, *, on_policy: bool) -> Tensor:
        """TRL's loss; its CISPO takes the cap itself as epsilon_high."""
        from trl.trainer.grpo_trainer import GRPOTrainer

        trainer: Any = GRPOTrainer
        ids = torch.zeros_like(self.mask, dtype=torch.long)
        inputs: dict[str, Any] = {
            "prompt_ids": ids[:, :1],
            "prompt_mask": ids[:, :1],
            "completion_ids": ids,
            "completion_mask": self.mask.double(),
            "advantages": self.advantages,
            "ref_per_token_logps": self.ref,
            "num_items_in_batch": self.mask.sum(),
        }
        if not on_policy:
            inputs["old_per_token_logps"] = self.old
        stub = _stub(loss, share, lambda *_, **__: (self.logprobs, self.entropies, None))
        stub.get_high_entropy_mask = lambda *given: trainer.get_high_entropy_mask(stub, *given)
        found: Tensor = trainer._compute_loss(stub, None, inputs)
        return found


def _stub(loss: GroupRelativeLoss, share: float, score: Any) -> SimpleNamespace:
    """Returns what `_compute_loss` reads of a trainer."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    capped = loss.loss_type == "cispo"
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=score,
        accelerator=SimpleNamespace(
            num_processes=1,
            sync_gradients=True,
            gather=lambda x: x,
            reduce=lambda x, **_: x,
            gather_for_metrics=lambda x: x,
            pad_across_processes=lambda x, **_: x,
        ),
        args=SimpleNamespace(
            use_bias_correction_kl=loss.bias_correction,
            delta=loss.delta,
            sapo_temperature_pos=1.0,
            sapo_temperature_neg=loss.sharpness[1],
            vespo_k_pos=2.0,
            vespo_lambda_pos=3.0,
            vespo_k_neg=3.0,
            vespo_lambda_neg=2.0,
            steps_per_generation=1,
        ),
        model=SimpleNamespace(training=True),
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        aux_loss_enabled=False,
        use_vllm=False,
        use_adaptive_entropy=False,
        top_entropy_quantile=share,
        off_policy_mask_threshold=loss.off_policy_threshold,
        importance_sampling_level=loss.level,
        beta=loss.beta,
        loss_type=loss.loss_type,
        epsilon_low=loss.epsilon,
        epsilon_high=loss.epsilon_high + (1 if capped else 0),
        max_completion_length=LONGEST,
        entropy_coef=loss.entropy_coef,
        _entropy_bonus_enabled=loss.entropy_coef != 0,
        current_gradient_accumulation_steps=1,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"beta": 0.3},
    {"beta": 0.3, "bias_correction": False},
    {"epsilon": 0.05, "epsilon_high": 0.4},
    {"delta": 1.3},
    {"off_policy_threshold": 0.01},
    {"entropy_coef": 0.2},
    {"entropy_coef": 0.2, "share": 0.4, "beta": 0.1},
    {"share": 0.4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(
    "loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"]
)
def test_loss_and_gradient_are_those_of_trl(
    loss_type: Any, level: Any, options: dict[str, Any]
) -> None:
    given = dict(options)
    share = given.pop("share", 1.0)
    loss = GroupRelativeLoss(
        loss_type, level, max_completion_length=LONGEST, sharpness=SHARPNESS, **given
    )
    for seed, on_policy in enumerate((False, True)):
        answers = Answers(seed, groups=1 + seed, width=7 + seed)
        ours = answers.ours(loss, share, on_policy=on_policy)
        theirs = answers.trl(loss, share, on_policy=on_policy)
        assert abs((ours - theirs).item()) <= EPSILON
        leaves = [answers.logprobs, answers.entropies]
        both = [torch.autograd.grad(x, leaves, allow_unused=True) for x in (ours, theirs)]
        for mine, their in zip(*both, strict=True):
            zero = torch.zeros(())
            apart = (zero if mine is None else mine) - (zero if their is None else their)
            assert float(apart.abs().max()) <= EPSILON


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_are_those_of_trls_definition(scale: Any) -> None:
    from trl.trainer.utils import nanstd

    rewards = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    # 5, 3 and 1 are left, together 9: TRL divides 5/4, 3/2 and 9/8 in float32, which is exact
    rewards[1, :2], rewards[2, :4] = torch.nan, torch.nan
    theirs = rewards - rewards.nanmean(1, keepdim=True)
    if scale != "none":
        std = nanstd(rewards) if scale == "batch" else nanstd(rewards, dim=1)[:, None]
        theirs = theirs / (std.nan_to_num(0) + 1e-4)
    ours = group_advantages(rewards.numpy(), scale)
    assert np.abs(ours - theirs.nan_to_num(0).numpy()).max() <= EPSILON


def test_without_old_log_probabilities_the_policy_itself_is_the_old_one() -> None:
    answers = Answers(5)
    loss = GroupRelativeLoss("dapo")
    (mine,) = torch.autograd.grad(answers.ours(loss, 1.0, on_policy=True), answers.logprobs)
    wanted = -answers.advantages[:, None] * answers.mask / answers.mask.sum()
    assert float((mine - wanted).abs().max()) <= EPSILON
    assert float(mine.abs().sum()) > 0


def _single_step(share: float, **given: Any) -> Tensor:
    """The gradient of the first step on answers that the policy itself has sampled."""
    answers = Answers(5)
    if share < 1:
        given["top_entropy_quantile"] = share
    loss = method_with("grpo", **given, max_completion_length=LONGEST).objective
    return torch.autograd.grad(answers.ours(loss, share, on_policy=True), answers.logprobs)[0]


TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")
SAME = {"bnpo": "dapo", "cispo": "dapo", "vespo": "dapo", "sapo": "grpo"}


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_in_a_single_step_the_losses_that_are_reported_as_equal_are_equal(
    share: float, beta: float
) -> None:
    found = {kind: _single_step(share, loss_type=kind, beta=beta) for kind in TYPES}
    for one, other in combinations(TYPES, 2):
        apart = float((found[one] - found[other]).abs().max())
        assert (apart <= EPSILON) == (SAME.get(one, one) == SAME.get(other, other))


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "cispo", "sapo", "luspo", "dr_grpo"])
def test_in_a_single_step_the_level_counts_where_the_settings_say_so(
    share: float, beta: float, loss_type: str
) -> None:
    given: dict[str, Any] = {"loss_type": loss_type, "beta": beta}
    by_token = _single_step(share, **given)
    whole = {"importance_sampling_level": "sequence"}
    apart = float((by_token - _single_step(share, **given, **whole)).abs().max())
    settings = {"model_name_or_path": "m", "dataset": "d", "stage": "grpo"}
    several = {**given, **whole, "top_entropy_quantile": share}
    config: Any = load_values({**settings, **several}).config
    assert (apart > EPSILON) == config.level_counts
