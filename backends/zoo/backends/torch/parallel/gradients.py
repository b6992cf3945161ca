"""Sums the gradients of all processes.

Once per optimizer step, and not, as in DistributedDataParallel, while a micro-batch is computed:
a process may have more micro-batches of a window than another, or none, and only what is trained
is sent, which is little for an adapter. What it costs: sending does not overlap with computing.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from zoo.backends.torch.parallel.group import TorchRanks

PIECE_BYTES = 1 << 26
"""The most bytes that are sent at once, unless one gradient has more."""


def sum_gradients(ranks: TorchRanks, parameters: Sequence[nn.Parameter]) -> None:
    """Replaces each gradient by the sum over all processes; where none has one, it stays None."""
    has = bytes(parameter.grad is not None for parameter in parameters)
    anywhere = [any(flags) for flags in zip(*ranks.gather_bytes(has), strict=True)]
    present = [p for p, has_gradient in zip(parameters, anywhere, strict=True) if has_gradient]
    for parameter in present:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for piece in _pieces([p.grad for p in present if p.grad is not None]):
        flat = torch.cat([gradient.flatten() for gradient in piece])
        ranks.add_up(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in piece])
        for gradient, part in zip(piece, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def _pieces(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yields gradients of one type that are sent together."""
    piece: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if piece and (gradient.dtype != piece[0].dtype or size + gradient.nbytes > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(gradient)
        size += gradient.nbytes
    if piece:
        yield piece
