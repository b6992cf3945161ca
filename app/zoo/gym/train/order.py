"""Which rows each step learns from: a function of the seed and the step alone.

So a run that resumes at step n needs no record of the rows it has seen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = TypeVar("Row")


def rows_of_step(rows: Sequence[Row], step: int, rows_per_step: int, seed: int) -> list[Row]:
    """Returns the rows of `step`, counted from 1: each row once per epoch, in a new order."""
    first = (step - 1) * rows_per_step
    chosen: list[Row] = []
    for position in range(first, first + rows_per_step):
        epoch, index = divmod(position, len(rows))
        chosen.append(rows[int(permutation(len(rows), seed, epoch)[index])])
    return chosen


_cache: "dict[tuple[int, int, int], NDArray[np.int64]]" = {}


def permutation(size: int, seed: int, epoch: int) -> "NDArray[np.int64]":
    """Returns the order of one epoch, the same on every machine."""
    import numpy as np

    key = (size, seed, epoch)
    if key not in _cache:
        while len(_cache) > 1:
            _cache.pop(next(iter(_cache)))
        _cache[key] = np.random.default_rng([seed, epoch]).permutation(size)
    return _cache[key]


def key_of(seed: int, step: int, micro_batch: int) -> int:
    """Returns the random seed of one micro-batch: 63 bits, derived from the three numbers."""
    import numpy as np

    state = np.random.SeedSequence([seed, step, micro_batch]).generate_state(1, np.uint64)[0]
    return int(state) >> 1


def rollout_key(seed: int, step: int, prompt: int, answer: int) -> int:
    """Returns the random seed of one sampled answer: 63 bits, derived from the four numbers."""
    import numpy as np

    entropy = [seed, step, prompt, answer, 1]  # five words: never those of a micro-batch
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
    return int(state) >> 1
