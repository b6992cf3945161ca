"""Random signs of matrices, vectors of norms and biases, and a policy with them merged."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Policy
from zoo.backends.batching import Signs

SCALES = ("row", "column", "matrix")


def dense(policy: Any, seed: int, size: float = 0.05) -> dict[str, Any]:
    """Random changes of all parameters, with scales of every kind, some with masks."""
    random = np.random.default_rng(seed)
    changes: dict[str, Any] = {}
    for number, (name, value) in enumerate(policy.module.model.named_parameters()):
        if value.dim() == 1:
            changes[name] = random.normal(0, 4 * size, len(value)).astype(np.float32)
            continue
        rows, columns = value.shape
        scale: Any = SCALES[(number + seed) % 3]
        count = {"row": rows, "column": columns, "matrix": 1}[scale]
        bits = random.integers(0, 256, (rows, -(-columns // 8)), np.uint8)
        scales = random.uniform(size / 2, size, count).astype(np.float32)
        mask = random.integers(0, 256, bits.shape, np.uint8) if number % 2 else None
        changes[name.removesuffix(".weight")] = Signs(bits, scales, scale, mask)
    return changes


def change_of(change: Any, columns: int) -> np.ndarray[Any, Any]:
    """What a change adds to a parameter."""
    if not isinstance(change, Signs):
        return np.asarray(change)
    signs = np.unpackbits(change.bits, axis=1, count=columns, bitorder="little") * 2.0 - 1
    if change.mask is not None:
        signs *= np.unpackbits(change.mask, axis=1, count=columns, bitorder="little")
    return signs * (change.scales[:, None] if change.scale == "row" else change.scales)


def merged(folder: Path, changes: dict[str, Any]) -> Policy:
    """A policy of the model with the changes in its weights."""
    policy = load_backend("cpu").load(folder, LoadSpec(dtype="f32"))
    loaded: Any = policy
    parameters = dict(loaded.module.model.named_parameters())
    with torch.no_grad():
        for name, change in changes.items():
            parameter = parameters[name if name in parameters else f"{name}.weight"]
            parameter += torch.tensor(change_of(change, parameter.shape[-1]), dtype=torch.float32)
    return policy
