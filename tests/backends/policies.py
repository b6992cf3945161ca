"""Policies for the contract suites: an engine's, and the reference's with the same values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from tests.backends.objectives_for_tests import SFT
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Policy
from zoo.backends.torch.policy import TorchPolicy

LORA = LoraSpec(rank=4, alpha=8.0)


def policies(
    engine: str, folder: Path, train: LoraSpec | Literal["full"], *, value_head: bool = False
) -> Iterator[Policy]:
    """The engine's policy and the reference's, with the same adapter values."""
    for name in (engine, "cpu"):
        policy = load_backend(name).load(
            folder, LoadSpec(train=train, dtype="f32", value_head=value_head, seed=1)
        )
        random = np.random.default_rng(7)
        moved = {
            key: value + 0.05 * random.standard_normal(value.shape).astype(np.float32)
            if "lora_" in key or "value_head" in key
            else value
            for key, value in policy.trained()
        }
        policy.load_trained(moved)
        yield policy


def as_reference(policy: Policy) -> TorchPolicy:
    assert isinstance(policy, TorchPolicy)
    return policy


def step(policy: Policy, batch: Batch, key: int) -> None:
    policy.accumulate(SFT, batch, key=key)
    policy.optimizer_step(1e-2, 1.0)
