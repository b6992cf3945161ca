"""Reads a written result back and compares it with the model that was trained.

A result can lose the training without any error: an adapter stored under other names, or a weight
that a library omits. So the folder is loaded once the trained weights are freed, and its logits on
a few tokens of the run's data are compared with the trained model's.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import TrainConfig
from zoo.gym.errors import GuardError, InputError
from zoo.models.folder import is_reward_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy

PROBE_TOKENS = 16
"""Tokens compared: with a vocabulary of 152,000, their logits take 10 MB."""

TOLERANCE, TOLERANCE_BF16 = 1e-4, 2e-2
"""The largest difference between the logits, relative to their norm."""

TOLERANCE_MERGED = 1e-1
"""The same for a reward model that was trained in bf16: it is read back in float32."""

NOISE, NOISE_BF16 = 1e-5, 5e-3
"""The relative difference that another summation order may cause."""


def check_result(policy: "Policy", folder: Path, ids: Sequence[int], config: TrainConfig) -> None:
    """Loads a result in place of the policy that wrote it; the policy cannot train afterwards.

    Args:
        policy: as it was when it wrote the result.
        folder: the result; deleted if it differs from the trained model.
        ids: some tokens; the first 16 are used.
        config: the settings of the run, with a chosen `dtype`.

    Raises:
        GuardError: the folder cannot be loaded, or gives other logits.
    """
    probe = list(ids)[:PROBE_TOKENS]
    expected = policy.logits(probe)
    scores = is_reward_model(folder)
    limit = _limit_of_merged(config) if scores else _limit(policy, expected, probe, config)
    try:
        policy.reopen(folder)
        apart = difference(policy.logits(probe), expected)
        problem = f"expected logits that differ by at most {limit:.1g}, got {apart:.2g}"
        right = apart <= limit
    except InputError as error:
        problem, right = error.message, False
    if not right:
        shutil.rmtree(folder, ignore_errors=True)
        raise GuardError(
            f"the written result differs from the trained model: {problem}",
            hint="nothing is lost: the trained weights are in the run's checkpoints",
            code="train.result_differs",
        )


def difference(actual: "NDArray[np.float32]", expected: "NDArray[np.float32]") -> float:
    """Returns |found - expected| / |expected|, infinite if their shapes differ.

    >>> import numpy as np
    >>> difference(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    0.1
    """
    import numpy as np

    if actual.shape != expected.shape:
        return float("inf")
    apart = np.linalg.norm(actual.astype(np.float64) - expected)
    return float(apart / np.linalg.norm(expected.astype(np.float64)))


def _sixteen_bits(config: TrainConfig) -> bool:
    return config.trains_adapter and config.dtype in {"auto", "bf16"}


def _limit_of_merged(config: TrainConfig) -> float:
    """Returns the tolerance for a whole model with the adapter merged."""
    return TOLERANCE_MERGED if _sixteen_bits(config) else TOLERANCE


def _limit(
    policy: "Policy", expected: "NDArray[np.float32]", probe: list[int], config: TrainConfig
) -> float:
    """Returns the tolerance: at most half of the adapter's effect, so that losing it is noticed."""
    sixteen = _sixteen_bits(config)
    limit, noise = (TOLERANCE_BF16, NOISE_BF16) if sixteen else (TOLERANCE, NOISE)
    if not config.trains_adapter:  # the base weights were overwritten
        return limit
    with policy.reference() as base:
        return min(limit, max(noise, difference(base.logits(probe), expected) / 2))
