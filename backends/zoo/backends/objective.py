"""Objectives: pure functions of statistics and masks, written once for all engines.

Legend: B rows, T positions, V vocabulary.

A *statistic* is a number per token that a policy computes chunk by chunk in float32, so that the
`[B, T, V]` logits never exist. An objective reads statistics through an array namespace with 16
functions, most of them from the Python array API standard.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

Array = Any
"""An array of the backend: a torch.Tensor, an mx.array, or NumPy's in the tests."""


class Stat(StrEnum):
    """The statistics that a policy computes per token."""

    LOGPROBS = "logprobs"
    ENTROPY = "entropy"
    LOG_SUM_SQ_PROBS = "log_sum_sq_probs"
    VALUES = "values"
    FORWARD_KL = "fkl"
    REVERSE_KL = "rkl"
    TOP1 = "top1"
    """1 where the teacher's most likely token is this model's, too, else 0; it has no gradient."""


class ArrayNamespace(Protocol):
    """The functions that an objective may use: names of the Python array API, and three more."""

    def exp(self, x: Array, /) -> Array:
        """Returns e to the power of x."""
        ...

    def expm1(self, x: Array, /) -> Array:
        """Returns exp(x) - 1, accurate near 0."""
        ...

    def log(self, x: Array, /) -> Array:
        """Returns the natural logarithm."""
        ...

    def log1p(self, x: Array, /) -> Array:
        """Returns log(1 + x), accurate near 0."""
        ...

    def minimum(self, x: Array, y: Array, /) -> Array:
        """Returns the elementwise minimum."""
        ...

    def maximum(self, x: Array, y: Array, /) -> Array:
        """Returns the elementwise maximum."""
        ...

    def clip(self, x: Array, low: float, high: float, /) -> Array:
        """Returns x clipped to [low, high]."""
        ...

    def where(self, condition: Array, x: Array, y: Array, /) -> Array:
        """Returns x where the condition is true, else y; differentiable in both."""
        ...

    def sum(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the sum over all values, or along one axis."""
        ...

    def mean(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the mean over all values, or along one axis."""
        ...

    def sort(self, x: Array, /, *, axis: int = -1) -> Array:
        """Returns the values in ascending order."""
        ...

    def zeros_like(self, x: Array, /) -> Array:
        """Returns zeros in the shape of x."""
        ...

    def ones_like(self, x: Array, /) -> Array:
        """Returns ones in the shape of x."""
        ...

    def stop_gradient(self, x: Array, /) -> Array:
        """Returns x as a constant."""
        ...

    def log_sigmoid(self, x: Array, /) -> Array:
        """Returns log(1 / (1 + exp(-x)))."""
        ...

    def sigmoid(self, x: Array, /) -> Array:
        """Returns 1 / (1 + exp(-x))."""
        ...


LossAndMetrics = tuple[Array, Mapping[str, Array]]
"""A loss, and metrics to report by name; metrics are not differentiated."""


class Objective(Protocol):
    """A loss: the sum over the rows of a batch, divided by the window's constants.

    Its metrics are sums of the same form (clipped tokens / the window's tokens), so that they add
    up over the micro-batches of a window, as the loss does.

    `coupled` means that rows depend on each other (a sort, a mean over the batch). Such an
    objective is scored over the whole window first and replayed linearly, so that its value does
    not depend on how the window is split into micro-batches.

    One whose class has `linear = True` promises a derivative that no statistic changes: a weighted
    sum. Its gradient needs one pass over the vocabulary, where others need the statistics of all
    tokens first.
    """

    @property
    def needs(self) -> frozenset[Stat]:
        """The statistics that it reads."""
        ...

    @property
    def coupled(self) -> bool:
        """Whether its value is not a sum over single rows."""
        ...

    def __call__(
        self, xp: ArrayNamespace, stats: Mapping[Stat, Array], batch: Mapping[str, Array]
    ) -> LossAndMetrics:
        """Returns the loss and its metrics, all scalars.

        Args:
            xp: the array functions.
            stats: the needed statistics, `[B, T]` each.
            batch: `mask`, `lengths`, the batch's extras and the window's constants.
        """
        ...
