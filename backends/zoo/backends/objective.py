"""What an objective is: a pure function of statistics and masks, written once for every engine.

Legend: B rows, T positions, V vocabulary.

A *statistic* is a number per token that a policy computes chunk by chunk in float32, so that the
`[B, T, V]` logits never exist. An objective reads statistics through an array namespace, which has
16 functions of the Python array API standard and three more.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

Array = Any
"""An array of the backend: a torch.Tensor, an mx.array, or NumPy's in the tests."""


class Stat(StrEnum):
    """What a policy can say of a token."""

    LOGPROBS = "logprobs"
    ENTROPY = "entropy"
    LOG_SUM_SQ_PROBS = "log_sum_sq_probs"
    VALUES = "values"
    FORWARD_KL = "fkl"
    REVERSE_KL = "rkl"


class ArrayNamespace(Protocol):
    """The functions that an objective may use: Python array API names, and three more."""

    def exp(self, x: Array, /) -> Array:
        """Returns e to the x."""
        ...

    def expm1(self, x: Array, /) -> Array:
        """Returns e to the x, less 1, exact near 0."""
        ...

    def log(self, x: Array, /) -> Array:
        """Returns the natural logarithm."""
        ...

    def log1p(self, x: Array, /) -> Array:
        """Returns the logarithm of 1 + x, exact near 0."""
        ...

    def minimum(self, x: Array, y: Array, /) -> Array:
        """Returns the smaller of each pair."""
        ...

    def maximum(self, x: Array, y: Array, /) -> Array:
        """Returns the larger of each pair."""
        ...

    def clip(self, x: Array, low: float, high: float, /) -> Array:
        """Returns x held within [low, high]."""
        ...

    def where(self, condition: Array, x: Array, y: Array, /) -> Array:
        """Returns x where the condition holds, else y; both are differentiated."""
        ...

    def sum(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the sum over all values, or along one axis."""
        ...

    def mean(self, x: Array, /, *, axis: int | None = None) -> Array:
        """Returns the mean over all values, or along one axis."""
        ...

    def sort(self, x: Array, /, *, axis: int = -1) -> Array:
        """Returns the values in rising order."""
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
        """Returns log(1 / (1 + e to the -x))."""
        ...

    def sigmoid(self, x: Array, /) -> Array:
        """Returns 1 / (1 + e to the -x)."""
        ...


LossAndMetrics = tuple[Array, Mapping[str, Array]]
"""A loss, and numbers to report beside it by name. None of them is differentiated."""


class Objective(Protocol):
    """A loss: the sum over the rows of a batch, divided by the window's constants.

    Its metrics are sums of the same form (clipped tokens / the window's tokens), so that they add
    up over the micro-batches of a window as the loss does.

    `coupled` says that rows depend on each other (a sort, a mean over the batch). Such an
    objective is scored over the whole window first and replayed linearly, so that cutting a
    window into micro-batches never changes its meaning.
    """

    @property
    def needs(self) -> frozenset[Stat]:
        """The statistics that it reads."""
        ...

    @property
    def coupled(self) -> bool:
        """Whether its value depends on rows together, not one by one."""
        ...

    def __call__(
        self, xp: ArrayNamespace, stats: Mapping[Stat, Array], batch: Mapping[str, Array]
    ) -> LossAndMetrics:
        """Returns the loss and its metrics, scalars all.

        Args:
            xp: the functions that may be used.
            stats: each needed statistic, `[B, T]`.
            batch: `mask` and `lengths`, the batch's extras and the window's constants.
        """
        ...
