"""Policies for the contract suites: an engine's, and the reference's with the same values."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from tests.backends.objectives_for_tests import SFT
from zoo.backends import load_backend
from zoo.backends.base import Batch, FreezeSpec, LoadSpec, LoraSpec, Policy
from zoo.backends.spec import OftSpec, Train
from zoo.backends.torch.adapters.names import is_added
from zoo.backends.torch.policy import TorchPolicy

P = TypeVar("P", bound=Policy)

LORA = LoraSpec(rank=4, alpha=8.0)
FREEZE = FreezeSpec(layers=1, modules=("self_attn", "up_proj"), extra=("norm",))
SIGNS = LoraSpec(rank=4, alpha=8.0, delta_bits=1)
DORA = LoraSpec(rank=4, alpha=8.0, dora=True)

PISSA = LoraSpec(rank=4, alpha=8.0, init="pissa", pissa_iter=-1)
OFT = OftSpec(block_size=16)

KINDS: dict[str, Train] = {
    "lora": LORA,
    "1 bit": SIGNS,
    "dora": DORA,
    "pissa": PISSA,
    "oft": OFT,
    "lora, whole": replace(LORA, whole=("embed_tokens", "norm")),
    "pissa, whole": replace(PISSA, whole=("embed_tokens", "lm_head")),
    "freeze": FREEZE,
    "full": "full",
}
"""Every kind of training."""


def policies(
    engine: str, folder: Path, train: Train, *, value_head: bool = False
) -> Iterator[Policy]:
    """The engine's policy and the reference's, with the same adapter values."""
    spec = LoadSpec(train=train, dtype="f32", value_head=value_head, seed=1)
    mine, plain = (load_backend(name).load(folder, spec) for name in (engine, "cpu"))
    mine.load_trained(dict(moved(plain).trained()))
    yield from (mine, plain)


def moved(policy: P) -> P:
    """The policy with other values in its adapter and value head, so that they have an effect."""
    random, values = np.random.default_rng(7), dict(policy.trained())
    for key, value in values.items():
        if is_added(key) or "value_head" in key:
            values[key] = (value + 0.05 * random.standard_normal(value.shape)).astype(np.float32)
    policy.load_trained(values)
    return policy


def as_reference(policy: Policy) -> TorchPolicy:
    assert isinstance(policy, TorchPolicy)
    return policy


def step(policy: Policy, batch: Batch, key: int) -> None:
    policy.accumulate(SFT, batch, key=key)
    policy.optimizer_step(1e-2, 1.0)
