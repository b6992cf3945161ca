"""Rows of token ids with the positions to learn.

Legend: B rows, T positions, R prompts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SharedPrefix:
    """Which rows of a batch begin with the same tokens, so that an engine may compute them once.

    Attributes:
        prompt_B: the prompt of each row, an index of `lengths_R`.
        lengths_R: the number of tokens that all rows of a prompt begin with.
    """

    prompt_B: "NDArray[np.int64]"
    lengths_R: "NDArray[np.int64]"


@dataclass(frozen=True)
class Batch:
    """Rows of token ids with the positions to learn, as arrays on the host.

    Attributes:
        ids_BT: token ids, padded on the right with any valid id.
        lengths_B: the number of real tokens in each row.
        loss_mask_BT: True where a token is learned. Position 0 is never learned.
        extras: further arrays for the objective: `ref_logprobs`, `advantages`, ...
        constants: constants of the window that an objective divides by: `window_tokens`, ...
        teacher: the rows with the teacher's prompts, if they differ; each row has the same learned
            tokens. None is this batch itself.
        temperature: the statistics are those of the logits divided by this: a policy that samples
            at a temperature learns the distribution that it samples from.
        prefix: the tokens that rows have in common. It changes the time only: engines that cannot
            share them compute each row in full.
    """

    ids_BT: "NDArray[np.int64]"
    lengths_B: "NDArray[np.int64]"
    loss_mask_BT: "NDArray[np.bool_]"
    extras: "Mapping[str, NDArray[Any]]" = field(default_factory=dict[str, Any])
    constants: Mapping[str, float] = field(default_factory=dict[str, float])
    teacher: "Batch | None" = None
    temperature: float = 1.0
    prefix: SharedPrefix | None = None

    def __post_init__(self) -> None:
        """Checks the temperature.

        Raises:
            ValueError: it is not a number above 0.
        """
        if not 0 < self.temperature < inf:
            raise ValueError(f"temperature: expected more than 0, got {self.temperature:g}")


@dataclass(frozen=True)
class StepInfo:
    """The result of one optimizer step.

    Attributes:
        grad_norm: the norm of the gradient before clipping.
        skipped: True if the gradient was not finite, so nothing was changed.
        changed: True if at least one trained value has changed, in this step or an earlier one.
    """

    grad_norm: float
    skipped: bool
    changed: bool
