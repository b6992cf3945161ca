"""LoRA as one operation: the losses and gradients of peft, and peft's own where it does not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy
from zoo.backends.torch import backend
from zoo.backends.torch.adapters import fused
from zoo.gym.objectives.constants import WINDOW_TOKENS
from zoo.gym.objectives.sft import SupervisedLoss

LORA = LoraSpec(rank=4, alpha=8.0)


def batch() -> Batch:
    ids_BT = np.random.default_rng(0).integers(0, 521, (2, 9))
    mask_BT = np.ones_like(ids_BT, dtype=np.bool_)
    mask_BT[:, 0] = False
    return Batch(ids_BT, np.array([9, 9]), mask_BT, constants={WINDOW_TOKENS: 16.0})


def learned(policy: Policy) -> tuple[float, dict[str, Any]]:
    """Returns the loss of the second of two steps, and its gradients."""
    policy.accumulate(SupervisedLoss(), batch(), key=0)
    policy.optimizer_step(0.05, 1.0)  # so that B is not zero, and A has a gradient
    loss = policy.accumulate(SupervisedLoss(), batch(), key=0)["loss"]
    return loss, dict(policy.gradients())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Returns a list to which each fused layer adds the shape of its inputs."""
    shapes: list[tuple[int, ...]] = []
    forward = fused._Sum.forward

    def noted(ctx: Any, x: torch.Tensor, *others: Any) -> torch.Tensor:
        shapes.append(tuple(x.shape))
        return forward(ctx, x, *others)

    monkeypatch.setattr(fused._Sum, "forward", staticmethod(noted))
    return shapes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16-widened"])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("fixed", [None, "ab" * 32])
def test_losses_and_gradients_are_those_of_peft(
    stored_bf16: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, again: bool, fixed: str | None
) -> None:
    train = LoraSpec(rank=4, alpha=8.0, fixed_a=fixed)
    spec = LoadSpec(train=train, dtype=dtype, gradient_checkpointing=again, seed=1)
    shapes = counted(monkeypatch)
    loss, gradients = learned(load_backend("cpu").load(stored_bf16, spec))
    assert shapes
    monkeypatch.setattr(backend, "fuse", lambda _: None)
    expected, theirs = learned(load_backend("cpu").load(stored_bf16, spec))
    assert loss == pytest.approx(expected, rel=1e-5)
    assert gradients.keys() == theirs.keys()
    for name, gradient in gradients.items():
        scale = float(np.abs(theirs[name]).max())
        np.testing.assert_allclose(
            gradient, theirs[name], rtol=1e-3, atol=1e-4 * scale, err_msg=name
        )
        assert scale > 0


@pytest.mark.slow
def test_answers_are_computed_by_it_too(stored_bf16: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = LoadSpec(train=LORA, dtype="f32", seed=1)
    fuses = load_backend("cpu").load(stored_bf16, spec)
    learned(fuses)
    monkeypatch.setattr(backend, "fuse", lambda _: None)
    plain = load_backend("cpu").load(stored_bf16, spec)
    learned(plain)
    shapes = counted(monkeypatch)
    np.testing.assert_allclose(fuses.logits([1, 2, 3]), plain.logits([1, 2, 3]), atol=1e-4)
    assert shapes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no delta can be made:zoo.core.errors.GymWarning")
@pytest.mark.parametrize(
    "train",
    [
        LoraSpec(rank=4, alpha=8.0, dropout=0.1),
        LoraSpec(rank=4, alpha=8.0, dora=True),
        LoraSpec(rank=4, alpha=8.0, init="pissa"),
    ],
)
def test_other_adapters_stay_with_peft(
    stored_bf16: Path, monkeypatch: pytest.MonkeyPatch, train: LoraSpec
) -> None:
    shapes = counted(monkeypatch)
    policy = load_backend("cpu").load(stored_bf16, LoadSpec(train=train, dtype="f32"))
    policy.accumulate(SupervisedLoss(), batch(), key=0)
    assert not shapes


@pytest.mark.slow
def test_layers_that_are_streamed_stay_with_peft(
    stored_bf16: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = counted(monkeypatch)
    spec = LoadSpec(
        train=LORA, dtype="bf16-widened", gradient_checkpointing=True, stream_layers=True
    )
    load_backend("cpu").load(stored_bf16, spec).accumulate(SupervisedLoss(), batch(), key=0)
    assert not shapes
