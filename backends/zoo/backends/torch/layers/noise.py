"""NEFTune: uniform noise on the embeddings, in training only (arXiv:2310.05914, algorithm 1).

Legend: B rows, T positions, L tokens of a line, D hidden size.

A row of n tokens has noise of up to alpha / sqrt(n D) on each value, whether it is padded or in a
line with others. It derives from the key of a pass alone, so a resumed run repeats it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zoo.backends.torch.packing.lines import Line
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from zoo.backends.torch.loss import DeviceBatch, LossModule


@contextmanager
def noisy_embeddings(
    module: "LossModule", batch: "DeviceBatch", alpha: float, key: int
) -> Generator[None]:
    """Adds noise to the embeddings of the forward passes inside the block.

    Args:
        module: the model.
        batch: the rows that it computes.
        alpha: the strength of the noise; 0 adds none.
        key: the random seed.

    Raises:
        InputError: the model does not compute embeddings with its embedding layer.
    """
    if not alpha:
        yield
        return
    model: Any = module.model
    draw, calls = torch.Generator().manual_seed(key), 0

    def add(_: object, args: object, embedded: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        noise = torch.rand(embedded.shape, generator=draw).mul_(2).sub_(1).to(embedded.device)
        size = alpha / (_row_tokens(batch) * embedded.shape[-1]).sqrt()
        return embedded + (noise * size).to(embedded.dtype)

    hook = model.get_input_embeddings().register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()
    if not calls:
        name = type(model).__name__
        raise InputError(
            f"neftune_noise_alpha: {name} does not use its embedding layer",
            code="torch.embedding_not_used",
        )


def _row_tokens(batch: "DeviceBatch") -> Tensor:
    """Returns the number of tokens in the row of each embedding, `[B, 1, 1]` or `[1, L, 1]`."""
    if isinstance(batch.packed, Line):
        ends = torch.tensor(batch.packed.ends)
        read = ends.diff(prepend=torch.zeros(1, dtype=ends.dtype))
        # a line leaves out the last token of each row
        return (read + 1).repeat_interleave(read)[None, :, None].to(batch.ids_BT.device)
    lengths_B: Tensor = batch.arrays["lengths"]
    return lengths_B[:, None, None]
