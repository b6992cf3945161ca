"""Random pairs for the losses over pairs, and TRL's own losses over the same numbers.

Legend: B rows (two for each pair), T positions, P pairs.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.gym.objectives.strict import StrictNamespace, strict
from zoo.backends.base import Objective, Stat
from zoo.backends.torch.namespace import TorchNamespace
from zoo.gym.objectives.constants import (
    LOGPROB_WEIGHTS,
    REF_LOGPROBS,
    WINDOW_FIRST_TOKENS,
    WINDOW_TOKENS,
    WINDOW_UNITS,
)
from zoo.gym.train.methods.preference import _logprob_weights

EPSILON = 1e-12


class Pairs:
    """Random statistics in float64; some answers of several pairs have no learned token."""

    def __init__(self, seed: int, *, pairs: int = 6, empty: bool = True) -> None:
        random = torch.Generator().manual_seed(seed)
        rows, width = 2 * pairs, 5 + seed % 5
        kind: dict[str, Any] = {"dtype": torch.float64, "generator": random}
        self.mask_BT = torch.rand(rows, width, **kind) < 0.7
        self.mask_BT[:, 0] = False
        self.mask_BT[:, 1] = True
        if empty:
            self.mask_BT[2], self.mask_BT[5] = False, False
        self.logprobs_BT = -3 * torch.rand(rows, width, **kind)
        self.logprobs_BT.requires_grad_()
        self.ref_BT = -3 * torch.rand(rows, width, **kind)
        self.log_sum_sq_BT = -torch.rand(rows, width, **kind)
        self.kl_BT = torch.rand(rows, width, **kind)

    @property
    def pairs(self) -> int:
        return len(self.mask_BT) // 2

    def stats(self) -> dict[Stat, Tensor]:
        return {
            Stat.LOGPROBS: self.logprobs_BT,
            Stat.LOG_SUM_SQ_PROBS: self.log_sum_sq_BT,
            Stat.FORWARD_KL: self.kl_BT,
        }

    def batch(self, ld_alpha: float | None = None) -> dict[str, Any]:
        mask = self.mask_BT.double()
        batch = {
            "mask": mask,
            REF_LOGPROBS: self.ref_BT,
            WINDOW_UNITS: float(self.pairs),
            WINDOW_TOKENS: float(mask.sum()),
            WINDOW_FIRST_TOKENS: float(mask[0::2].sum()),
        }
        return batch | (
            {} if ld_alpha is None else {LOGPROB_WEIGHTS: self.logprob_weights(ld_alpha)}
        )

    def logprob_weights(self, ld_alpha: float) -> Tensor:
        rows = []
        for place, row in enumerate(self.mask_BT):
            other = self.mask_BT[place + 1 - 2 * (place % 2)]
            shared = min(int(row.sum()), int(other.sum()))
            rows.append(torch.from_numpy(_logprob_weights(row.numpy(), shared, ld_alpha)).double())
        return torch.stack(rows)

    def ours(self, objective: Objective, **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = objective(TorchNamespace(), self.stats(), self.batch(**options))
        return loss, dict(metrics)

    def strictly(self, objective: Objective, **options: Any) -> Tensor:
        """Returns the loss over array-api-strict."""
        stats = {stat: strict(value.detach().numpy()) for stat, value in self.stats().items()}
        batch = {
            name: strict(value.numpy()) if isinstance(value, Tensor) else value
            for name, value in self.batch(**options).items()
        }
        loss = float(objective(StrictNamespace(), stats, batch)[0])
        return torch.tensor(loss, dtype=torch.float64)

    def parts(self, objective: Objective) -> list[Tensor]:
        """Returns the loss of each micro-batch: of one pair, of three and of two."""
        stats, batch = self.stats(), self.batch()
        losses = []
        for rows in (slice(0, 2), slice(2, 8), slice(8, 12)):
            cut = {k: v[rows] if isinstance(v, Tensor) else v for k, v in batch.items()}
            part = {stat: value[rows] for stat, value in stats.items()}
            losses.append(objective(TorchNamespace(), part, cut)[0])
        return losses

    def gradient(self, loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, self.logprobs_BT)
        return gradient

    def chosen_first(self, values_BT: Tensor) -> Tensor:
        """Returns rows in the order of TRL: all better answers, then all worse ones."""
        return torch.cat([values_BT[0::2], values_BT[1::2]])


def assert_same(problem: Pairs, got: Tensor, expected: Tensor) -> None:
    """Checks value and gradient."""
    close(got, expected)
    close(problem.gradient(got), problem.gradient(expected))


def close(got: Tensor, expected: Tensor) -> None:
    """Checks that the largest difference is at most 1e-12, times the largest value if above 1."""
    scale = max(1.0, float(expected.detach().abs().max()))
    assert float((got - expected).detach().abs().max()) <= EPSILON * scale


@contextmanager
def doubles() -> Iterator[None]:
    """Makes new tensors float64: TRL converts some options to tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def accelerator() -> SimpleNamespace:
    """Returns what TRL's losses ask of accelerate, for one process."""
    return SimpleNamespace(
        device=torch.device("cpu"),
        gather=lambda value: value,
        gather_for_metrics=lambda value: value,
    )


def trl_model(logprobs_BT: Tensor, problem: Pairs) -> Any:
    """Returns a function that answers as a model with TRL's fused head, and as TRL's stub model."""
    shifted = (problem.chosen_first(logprobs_BT) * problem.chosen_first(problem.mask_BT))[:, 1:]
    said = SimpleNamespace(
        log_probs=shifted,
        log_sum_sq_probs=problem.chosen_first(problem.log_sum_sq_BT)[:, 1:],
        entropy=torch.zeros_like(shifted),
        mean_logits=torch.zeros_like(shifted),
        is_top1=torch.zeros_like(shifted, dtype=torch.bool),
    )

    def model(**_: Any) -> SimpleNamespace:
        return said

    return model


def trl_dpo(problem: Pairs, **options: Any) -> tuple[Tensor, dict[str, float]]:
    """Returns TRL's own DPO loss over our log-probabilities, and its metrics by name."""
    from trl.trainer.dpo_trainer import DPOTrainer

    plain: Any = torch.nn.Module()
    plain.is_gradient_checkpointing = False
    settings: dict[str, Any] = {
        "beta": 0.1,
        "loss_types": ["sigmoid"],
        "label_smoothing": 0.0,
        "f_divergence_type": "reverse_kl",
        "f_alpha_divergence_coef": 0.5,
        "ld_alpha": None,
        "use_weighting": False,
        "discopop_tau": 0.05,
        **options,
    }
    metrics: dict[str, list[float]] = defaultdict(list)
    trainer = SimpleNamespace(
        model=plain,
        ref_model=trl_model(problem.ref_BT, problem),
        accelerator=accelerator(),
        aux_loss_enabled=False,
        precompute_ref_logps=False,
        args=SimpleNamespace(
            gradient_checkpointing_kwargs=None, discopop_tau=settings.pop("discopop_tau")
        ),
        loss_weights=settings.pop("loss_weights", [1.0] * len(settings["loss_types"])),
        _metrics={"train": metrics},
        _total_train_tokens=0,
        _tp_size=1,
        **settings,
    )
    mask = problem.chosen_first(problem.mask_BT).long()
    inputs = {
        "input_ids": torch.zeros_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
    }
    compute: Any = DPOTrainer._compute_loss
    with doubles():
        loss = compute(trainer, trl_model(problem.logprobs_BT, problem), inputs, False)
    return loss, {name: values[-1] for name, values in metrics.items()}


class Logits:
    """Random logits in float64, from which a problem's log-probabilities follow.

    The losses that TRL computes without a reference start from logits.
    """

    def __init__(self, seed: int, *, empty: bool = False) -> None:
        self.problem = Pairs(seed, empty=empty)
        random = torch.Generator().manual_seed(seed + 100)
        kind: dict[str, Any] = {"dtype": torch.float64, "generator": random}
        rows, width = self.problem.mask_BT.shape
        self.logits_BTV = (2 * torch.randn(rows, width, 11, **kind)).requires_grad_()
        self.ids_BT = torch.randint(0, 11, (rows, width), generator=random)
        logprobs_BTV = torch.log_softmax(self.logits_BTV[:, :-1], -1)
        chosen_BT = logprobs_BTV.gather(-1, self.ids_BT[:, 1:, None])[..., 0]
        self.problem.logprobs_BT = torch.nn.functional.pad(chosen_BT, (1, 0))

    def assert_same(self, got: Tensor, expected: Tensor) -> None:
        """Checks value and gradient."""
        close(got, expected)
        leaf = self.logits_BTV
        ours, theirs = (
            torch.autograd.grad(loss, leaf, retain_graph=True)[0] for loss in (got, expected)
        )
        close(ours, theirs)
        assert ours.abs().max() > 0


class Double(Tensor):
    """A tensor that TRL cannot round to float32."""

    def float(self, *_: Any, **__: Any) -> Tensor:
        return self if self.is_floating_point() else super().float()


def trl_without_reference(kind: Any, logits: Logits, **options: Any) -> tuple[Tensor, Any]:
    """Returns the loss of TRL's ORPO or CPO trainer over our logits, and its metrics by name.

    The attention mask is that of learned tokens: its ORPO would learn the prompt, too.
    """
    mask_BT = logits.problem.mask_BT
    labels_BT = logits.ids_BT.masked_fill(~mask_BT, -100)
    parts = {"input_ids": logits.ids_BT, "attention_mask": mask_BT.long(), "labels": labels_BT}
    batch = {
        f"{side}_{name}": values[place::2]
        for place, side in enumerate(("chosen", "rejected"))
        for name, values in parts.items()
    }
    trainer = SimpleNamespace(
        accelerator=accelerator(),
        aux_loss_enabled=False,
        is_encoder_decoder=False,
        padding_value=0,
        pad_token_id=0,
        concatenated_inputs=kind.concatenated_inputs,
        get_batch_logps=lambda *a, **k: kind.get_batch_logps(*a, **k).as_subclass(Double),
        **options,
    )
    for name in ("concatenated_forward", "odds_ratio_loss", "cpo_loss"):
        if hasattr(kind, name):
            setattr(trainer, name, getattr(kind, name).__get__(trainer))
    said = SimpleNamespace(logits=logits.problem.chosen_first(logits.logits_BTV))
    loss, metrics = kind.get_batch_loss_metrics(trainer, lambda *_, **__: said, batch)
    return loss.as_subclass(Tensor), metrics
