"""The learning rate of each step."""

import math
from typing import Literal

Shape = Literal["cosine", "linear", "constant"]


def learning_rate(step: int, *, peak: float, steps: int, warmup_steps: int, shape: Shape) -> float:
    """Returns the learning rate of `step`, counted from 1; it is above zero at every step.

    During the warm-up it rises from `peak / warmup_steps` to `peak`; then it falls towards zero,
    which it would reach one step after the last; a constant rate stays at `peak`.

    Args:
        step: 1 to `steps`.
        peak: the highest rate.
        steps: optimizer steps of the whole run.
        warmup_steps: number of warm-up steps; 0 for none.
        shape: of the decay.
    """
    if step <= warmup_steps:
        return peak * step / warmup_steps
    if shape == "constant":
        return peak
    done = (step - 1 - warmup_steps) / max(1, steps - warmup_steps)
    if shape == "linear":
        return peak * (1 - done)
    return peak * (1 + math.cos(math.pi * done)) / 2
