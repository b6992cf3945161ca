"""OFT: rotations of a layer's inputs, by blocks (arXiv:2306.07280; OFTv2, arXiv:2506.19847).

x' = x R, with R block-diagonal and (nearly) orthogonal, so W' = W R^T. The layers are peft's, which
take the weights of the base as they are, in any number of bits.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.spec import OftSpec
from zoo.backends.torch.adapters.names import ADAPTER
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from peft import PeftModel


def prepare_rotations(model: "PeftModel", spec: OftSpec) -> None:
    """Checks the blocks of each layer, and makes the dropout of `spec` work.

    Raises:
        InputError: the inputs of a layer cannot be divided as `spec` says, where peft would choose
            another size, or it is no linear layer.
    """
    from peft.tuners.oft.layer import OFTLayer

    for name, layer in model.get_base_model().named_modules():
        if isinstance(layer, OFTLayer):
            _check(name, layer, spec)
            if spec.dropout:
                _drop(layer, spec.dropout)


def _check(name: str, layer: Any, spec: OftSpec) -> None:  # noqa: ANN401
    base = layer.get_base_layer()
    if not isinstance(base, nn.Linear):
        raise InputError(
            f"oft_target: expected linear layers, got {type(base).__name__} {name!r}",
            hint="oft_target=all is every linear layer below the head",
            code="backends.not_linear",
        )
    check_blocks(name, layer.in_features, spec)


def check_blocks(name: str, inputs: int, spec: OftSpec) -> None:
    """Refuses blocks that the inputs of a layer cannot be divided into.

    Raises:
        InputError: their number or size does not divide them, or a block has a single input.
    """
    for key, value in ("oft_rank", spec.rank), ("oft_block_size", spec.block_size):
        if value and inputs % value:
            sizes = [size for size in range(1, inputs + 1) if inputs % size == 0]
            nearest = min(sizes, key=lambda size: abs(size - value))
            raise InputError(
                f"{key}: expected a divisor of the {inputs} inputs of {name!r}, got {value}",
                hint=f"the nearest one is {nearest}; oft_target names the layers",
                code="torch.block_does_not_divide",
            )
    if (spec.block_size or inputs // spec.rank) < 2:
        raise InputError(
            f"oft_rank: expected at most {inputs // 2}, so that a block of {name!r} can rotate, "
            f"got {spec.rank}",
            code="torch.rank_too_large",
        )


def _drop(layer: Any, share: float) -> None:  # noqa: ANN401
    """Leaves out blocks at random in training: the module that peft 0.21 makes is never called."""
    rotation = layer.oft_R[ADAPTER]
    rotations = rotation._cayley_batch

    def dropped(*args: Any) -> Tensor:  # noqa: ANN401
        rotated: Tensor = rotations(*args)
        if not rotation.training:
            return rotated
        keep = torch.rand(len(rotated), 1, 1, device=rotated.device) >= share
        return torch.where(
            keep, rotated, torch.eye(rotated.shape[-1], device=rotated.device).to(rotated)
        )

    rotation._cayley_batch = dropped


@torch.no_grad()
def with_rotations(weight: Tensor, layer: Any) -> Tensor:  # noqa: ANN401
    """Returns a float32 weight `[out, in]` on the CPU with a layer's rotations merged."""
    for name in layer.active_adapters:
        weight = weight @ layer.get_delta_weight(name).float().cpu().T
    return weight.contiguous()
