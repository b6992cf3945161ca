"""The array namespace of objectives, over MLX."""

import mlx.core as mx


class MlxNamespace:
    """The functions of `zoo.backends.base.ArrayNamespace` on MLX arrays."""

    exp = staticmethod(mx.exp)
    expm1 = staticmethod(mx.expm1)
    log = staticmethod(mx.log)
    log1p = staticmethod(mx.log1p)
    minimum = staticmethod(mx.minimum)
    maximum = staticmethod(mx.maximum)
    where = staticmethod(mx.where)
    zeros_like = staticmethod(mx.zeros_like)
    ones_like = staticmethod(mx.ones_like)
    sigmoid = staticmethod(mx.sigmoid)
    stop_gradient = staticmethod(mx.stop_gradient)

    @staticmethod
    def clip(x: mx.array, low: float, high: float, /) -> mx.array:
        """Returns `x` clipped to `[low, high]`."""
        return mx.clip(x, low, high)

    @staticmethod
    def sum(x: mx.array, /, *, axis: int | None = None) -> mx.array:
        """Returns the sum over all values, or along one axis."""
        return mx.sum(x, axis=axis)

    @staticmethod
    def mean(x: mx.array, /, *, axis: int | None = None) -> mx.array:
        """Returns the mean over all values, or along one axis."""
        return mx.mean(x, axis=axis)

    @staticmethod
    def sort(x: mx.array, /, *, axis: int = -1) -> mx.array:
        """Returns the values in ascending order; each gradient goes to its value."""
        return mx.take_along_axis(x, mx.stop_gradient(mx.argsort(x, axis=axis)), axis=axis)

    @staticmethod
    def log_sigmoid(x: mx.array, /) -> mx.array:
        """Returns log(1 / (1 + exp(-x)))."""
        return -mx.logaddexp(mx.zeros_like(x), -x)
