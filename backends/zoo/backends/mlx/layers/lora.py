"""A linear layer with a low-rank adapter (arXiv:2106.09685), in PEFT's orientation; also DoRA.

Legend: O outputs, I inputs, R rank.

The adapter computes in float32 whatever the type of the base weight, as in peft.

DoRA (arXiv:2402.09353, eq. 5) computes `m * (W + s B A) x / |W + s B A|`, with a magnitude m and a
norm per output; as in section 4.3, the norm is a constant in the backward pass.
"""

import math
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from zoo.backends.mlx.files.quantized import float_weight, linear_shape
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.spec import LoraSpec


class LoraLinear(nn.Module):
    """`base(x) + scale * B @ A @ dropout(x)`, or DoRA's `(magnitude / norm) * ...` of it.

    Args:
        base: the frozen layer: `nn.Linear` or `nn.QuantizedLinear`.
        spec: the settings of the adapter.
        state: what all adapted layers of the model share.
        place: the number of the layer, for its random values.
        seed: the seed of the initialisation; B is zero.
    """

    def __init__(
        self,
        base: Any,  # noqa: ANN401
        spec: LoraSpec,
        state: PassState,
        *,
        index: int,
        seed: int,
    ) -> None:
        super().__init__()
        outputs, inputs = linear_shape(base)
        self.base = base
        self.scale = spec.alpha / (math.sqrt(spec.rank) if spec.rslora else spec.rank)
        self.dropout, self.place, self._state = spec.dropout, index, state
        self.lora_A = _initial(spec.rank, inputs, (seed, index))
        self.lora_B = mx.zeros((outputs, spec.rank))
        self._squares: mx.array | None = None
        if spec.dora:
            self._squares = mx.square(float_weight(base)).sum(-1)
            self.lora_magnitude_vector = mx.sqrt(self._squares)
            mx.eval(self._squares, self.lora_magnitude_vector)

    def __call__(self, x: mx.array) -> mx.array:
        """Returns the layer's output, in the type of the base's."""
        y: mx.array = self.base(x)
        if not self._state.adapted:
            return y
        more = self.addition(x)
        if self._squares is not None:
            factor_O = self.lora_magnitude_vector / self._norm()
            more = (factor_O - 1) * self._product(self._dropped(x), y) + factor_O * more
        return (y + more).astype(y.dtype)

    def _product(self, x: mx.array, y: mx.array | None = None) -> mx.array:
        """Returns `W @ x` in float32; `y` is the layer's output if nothing of x is dropped."""
        plain = y is not None and (self._state.key is None or not self.dropout)
        total: mx.array = y if y is not None and plain else self.base(x)
        total = total.astype(mx.float32)
        return total - self.base.bias if "bias" in self.base else total

    def _norm(self) -> mx.array:
        """Returns the norm of each row of `W + scale * B @ A`, without that matrix."""
        a_RI, b_OR = mx.stop_gradient(self.lora_A), mx.stop_gradient(self.lora_B)
        across_OR = self._product(a_RI).T
        squares_O = self._squares + 2 * self.scale * (across_OR * b_OR).sum(-1)
        squares_O = squares_O + self.scale**2 * ((b_OR @ (a_RI @ a_RI.T)) * b_OR).sum(-1)
        return mx.stop_gradient(mx.sqrt(squares_O))

    def _dropped(self, x: mx.array) -> mx.array:
        x = x.astype(mx.float32)
        mask = self._state.mask(self.dropout, self.place, x.shape)
        return x if mask is None else x * mask

    def addition(self, x: mx.array) -> mx.array:
        """Returns what the adapter adds, in float32."""
        return (self.scale * (self._dropped(x) @ self.lora_A.T)) @ self.lora_B.T


def _initial(rank: int, inputs: int, seed: tuple[int, int]) -> mx.array:
    """Returns a random A `[R, I]`, uniform within one over the root of the inputs, as in peft."""
    limit = 1 / math.sqrt(inputs)
    values = np.random.default_rng(seed).uniform(-limit, limit, (rank, inputs))
    return mx.array(values.astype(np.float32))


def is_linear(module: object) -> bool:
    """Returns whether a module is a linear layer, quantised or not, with an adapter or without."""
    return isinstance(module, nn.Linear | nn.QuantizedLinear | LoraLinear)
