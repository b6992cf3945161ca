"""Reads a written result back and compares it with the model that was trained.

A result can lose the training without a sign: an adapter that is written under other names, a
weight that a library leaves out. So the folder is opened again, once the trained weights are
freed, and its logits on a few tokens of the run's data are compared with the trained model's.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.config import TrainConfig
from zoo.gym.errors import GuardError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Policy

PROBE_TOKENS = 16
"""Tokens compared: of 152,000 words they take 10 MB of memory."""

TOLERANCE, TOLERANCE_BF16 = 1e-4, 2e-2
"""How far the logits may be apart, as a share of their size."""

NOISE, NOISE_BF16 = 1e-5, 5e-3
"""What another order of the same sums may change."""


def check_result(policy: "Policy", folder: Path, ids: Sequence[int], config: TrainConfig) -> None:
    """Opens a result in the place of the policy that wrote it; the policy learns no more.

    Args:
        policy: as it was when it wrote the result.
        folder: the result; removed where it is not what was trained.
        ids: some tokens; the first 16 are used.
        config: of the run, with its `dtype` chosen.

    Raises:
        GuardError: the folder cannot be opened, or gives other logits.
    """
    probe = list(ids)[:PROBE_TOKENS]
    expected = policy.logits(probe)
    limit = _limit(policy, expected, probe, config)
    try:
        policy.reopen(folder)
        apart = difference(policy.logits(probe), expected)
        problem = f"expected the trained model's logits within {limit:.1g}, got {apart:.2g} apart"
        right = apart <= limit
    except InputError as error:
        problem, right = error.message, False
    if not right:
        shutil.rmtree(folder, ignore_errors=True)
        raise GuardError(
            f"the result was written and read back as another model: {problem}",
            hint="nothing is lost: the trained weights are in the run's checkpoints",
        )


def difference(found: "NDArray[np.float32]", expected: "NDArray[np.float32]") -> float:
    """Returns |found - expected| / |expected|, infinite where they do not fit each other.

    >>> import numpy as np
    >>> difference(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    0.1
    """
    import numpy as np

    if found.shape != expected.shape:
        return float("inf")
    apart = np.linalg.norm(found.astype(np.float64) - expected)
    return float(apart / np.linalg.norm(expected.astype(np.float64)))


def _limit(
    policy: "Policy", expected: "NDArray[np.float32]", probe: list[int], config: TrainConfig
) -> float:
    """Half of what an adapter changes, where that is less: losing it must not pass as rounding."""
    full = config.finetuning_type == "full"
    narrow = not full and config.dtype in {"auto", "bf16"}
    limit, noise = (TOLERANCE_BF16, NOISE_BF16) if narrow else (TOLERANCE, NOISE)
    if full:  # the base is not at hand any more
        return limit
    with policy.reference() as base:
        return min(limit, max(noise, difference(base.logits(probe), expected) / 2))
