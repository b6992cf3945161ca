"""Factors of a low-rank delta that are trained although their codes are few: by latent values.

Each step codes the latent values anew, and the model computes with what the codes say. Their
gradient is taken for that of the latent values, as if coding were the identity: the
straight-through estimator (arXiv:1308.3432, section 4).
Legend: A is [rank, in], B is [rank, out] with the adapter's factor in it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.lowrank import code_factor, cut_factors, decode_factors
from zoo.gym.delta.codecs.tensor import Encoded
from zoo.gym.delta.codecs.values import Parts
from zoo.gym.delta.file.terms import LowRankTerm, TensorTerms
from zoo.gym.delta.reading.adapter import Adapter, read_factors
from zoo.gym.delta.trainable import TrainableTensor
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float32]

PREFIX = "base_model.model."
"""What peft's files write before the name of a parameter."""


def refuse_experts(adapter: Adapter) -> None:
    """Refuses an adapter whose factors several matrices share.

    Raises:
        InputError: it adapts stacked experts.
    """
    for name in adapter.factors:
        if adapter.experts(name) > 1:
            raise InputError(
                f"{adapter.weights.source}: expected factors of each matrix to train, got those of "
                f"stacked experts for {name!r}",
                hint="--distill off",
                code="delta.stacked_experts",
            )


class LatentFactors(TrainableTensor):
    """The latent factors of a tensor, beginning with an adapter's own.

    Args:
        tensor: the tensor of the delta, of one low-rank term.
        adapter: the adapter that was coded; a model with it is trained.

    Raises:
        InputError: the adapter has one pair of factors for several experts.
    """

    def __init__(self, tensor: TensorTerms, adapter: Adapter) -> None:
        import numpy as np

        refuse_experts(adapter)
        self.tensor = tensor
        (self._term,) = (term for term in tensor.terms if isinstance(term, LowRankTerm))
        factors = read_factors(adapter, tensor.name)
        self._rank = len(factors[0])
        A, B = cut_factors(*factors, self._term.rank)
        self.trained = {"A": A.copy(), "B": B.copy()}
        self.units = {
            name: np.full_like(values, np.sqrt(np.mean(np.square(values))))
            for name, values in self.trained.items()
        }
        self._scale = np.float32(adapter.scales[tensor.name])
        names = adapter.factors[tensor.name]
        self.parameter_names = tuple(name.removeprefix(PREFIX) for name in names)
        # of a base that stores [in, out], peft's A belongs to the rows
        self._sides = "BA" if tensor.name in adapter.transposed else "AB"

    def parameters(self, parts: "Parts | None" = None) -> "Iterator[tuple[str, FloatArray]]":
        """Yields peft's A and B as the codes have them."""
        import numpy as np

        arrays = self.encoded().arrays if parts is None else parts
        cut = ((0, self._rank - self._term.rank), (0, 0))  # the adapter has these rows, too
        A, B = (np.pad(F, cut) for F in decode_factors(self._term, arrays, self.tensor.shape))
        first, second = (A, B) if self._sides == "AB" else (B, A)
        yield self.parameter_names[0], first
        yield self.parameter_names[1], np.ascontiguousarray(second.T) / self._scale

    def gradients(self, parameter: str, gradient: "FloatArray") -> "dict[str, FloatArray]":
        """Returns the gradient of the coded factor as that of the latent one."""
        rank = self._term.rank
        if parameter == self.parameter_names[0]:
            return {self._sides[0]: gradient[:rank]}
        return {self._sides[1]: gradient.T[:rank] / self._scale}

    def encoded(self) -> Encoded:
        """Returns the codes of the latent factors."""
        arrays = {
            **code_factor(self.tensor.name, "A", self.trained["A"], self._term.A),
            **code_factor(self.tensor.name, "B", self.trained["B"], self._term.B),
        }
        return Encoded(self.tensor, arrays)
