"""Quantisation-aware training: layers see LoRA factors as a delta of few bits stores them.

Each step codes the values that the optimizer changes, and the model computes with what the codes
mean. Their gradient is taken for that of the values, as if coding were the identity: the
straight-through estimator (arXiv:1308.3432, section 4). The saved adapter is what the codes mean,
so a delta of as many bits loses nothing of it.

Legend: R rank, I inputs, O outputs; A is [R, I], B is [O, R], which a delta stores as [R, O] with
the adapter's scale in it, in groups of 128 along a row.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from peft import PeftModel

GROUP = 128

Bits: TypeAlias = Literal[1, 2, 4, 8]
CODECS: dict[Bits, Literal["sign", "int4", "int8"]] = {1: "sign", 4: "int4", 8: "int8"}
"""The codecs of a delta's factors but for 2 bits, which have zero points."""


def code_factors(model: "PeftModel", bits: Bits) -> None:
    """Makes every layer of a LoRA adapter compute with coded factors, in place.

    Raises:
        InputError: a layer is no linear one: a delta divides the factors of stacked experts before
            it codes them, and has none of embeddings.
    """
    from peft.tuners.lora import LoraLayer
    from transformers.pytorch_utils import Conv1D

    for name, module in model.get_base_model().named_modules():
        if isinstance(module, LoraLayer):
            layer: Any = module
            plain = isinstance(layer.get_base_layer(), nn.Linear | Conv1D)
            if not plain or hasattr(layer, "parameter_name"):
                raise InputError(
                    f"delta_bits: expected an adapter of linear layers alone, got {name!r}",
                    hint="name linear layers in lora_target",
                    code="backends.not_linear",
                )
            _code(layer.lora_A[ADAPTER], bits, None)
            _code(layer.lora_B[ADAPTER], bits, float(layer.scaling[ADAPTER]))


class _Coded(nn.Linear):
    """A factor whose `weight` is what its codes mean; its parameter keeps the values."""

    coding: tuple[Bits, float | None]

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The coded values, through which the gradient reaches the parameter."""
        values = self._parameters["weight"]
        assert values is not None
        meaning = _as_coded(values.detach(), *self.coding)
        coded: Tensor = _StraightThrough.apply(values, meaning)  # type: ignore[no-untyped-call]
        return coded

    def _save_to_state_dict(
        self, destination: dict[str, Tensor], prefix: str, keep_vars: bool
    ) -> None:
        destination[f"{prefix}weight"] = self.weight if keep_vars else self.weight.detach()


def _code(factor: nn.Module, bits: Bits, scale: float | None) -> None:
    factor.__class__ = _Coded
    factor.coding = (bits, scale)  # type: ignore[assignment]


class _StraightThrough(torch.autograd.Function):
    """(values, coded) -> coded, whose gradient is that of the values."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, coded: Tensor) -> Tensor:  # noqa: ANN401
        del ctx, values
        return coded.view_as(coded)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # noqa: ANN401
        del ctx
        return grads[0], None


def _as_coded(values: Tensor, bits: Bits, scale: float | None) -> Tensor:
    """Returns what the codes of a factor mean, in its shape and type; B has a `scale`."""
    array = values.float().cpu().numpy()
    if scale is None:
        coded = _decoded(array, bits)
    else:
        coded = _decoded(array.T * array.dtype.type(scale), bits).T / array.dtype.type(scale)
    return torch.from_numpy(coded).to(values).contiguous()


def _decoded(F: "NDArray[np.float32]", bits: Bits) -> "NDArray[np.float32]":
    """Codes a factor [R, length] as a low-rank delta of these bits does, and decodes it."""
    import numpy as np

    from zoo.core import pack_codes2, pack_groups, unpack_codes2, unpack_groups

    values, length = np.ascontiguousarray(F), F.shape[1]
    if bits == 2:
        codes, scales, zeros = pack_codes2(values, group=GROUP)
        return unpack_codes2(codes, scales, zeros, cols=length, group=GROUP)
    codec = CODECS[bits]
    codes, scales = pack_groups(codec, values)
    return unpack_groups(codec, codes, scales, cols=length)
