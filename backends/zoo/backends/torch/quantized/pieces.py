"""Quantises weights on a CPU piece by piece, with the codes that the library gives a whole weight.

There the library widens a weight to float32 and keeps five tensors of that size at once: 63 MB for
a weight of 6 MB in bf16. Blocks of 4 bits and rows of 8 bits do not depend on each other.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from zoo.backends.torch.quantized.library import require_library
from zoo.backends.torch.quantized.pages import own_pages

PIECE_WEIGHTS = 1 << 18
"""A multiple of each size of block."""

SCALES_A_BLOCK = 256
"""Scales that share one scale with double quantisation."""


@contextmanager
def quantizing_in_pieces() -> Generator[None]:
    """Lets the library quantise weights on a CPU in pieces."""
    functional = require_library().functional
    four, eight = functional.quantize_4bit, functional.int8_vectorwise_quant

    def four_bits(A: Tensor, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        if arguments or A.device.type != "cpu" or A.numel() <= PIECE_WEIGHTS:
            return four(A, *arguments, **options)
        return _four_bits(four, A, **options)

    def eight_bits(A: Tensor, threshold: float = 0.0) -> Any:  # noqa: ANN401
        if threshold or A.device.type != "cpu" or A.numel() <= PIECE_WEIGHTS:
            return eight(A, threshold)
        rows = max(1, PIECE_WEIGHTS // A.shape[-1])
        codes = own_pages(A.numel()).view(torch.int8).view(A.shape)
        scales = torch.empty(A.shape[0])
        for start in range(0, A.shape[0], rows):
            piece = slice(start, start + rows)
            codes[piece], scales[piece], _ = eight(A[piece], 0.0)
        return codes, scales, None

    functional.quantize_4bit, functional.int8_vectorwise_quant = four_bits, eight_bits
    try:
        yield
    finally:
        functional.quantize_4bit, functional.int8_vectorwise_quant = four, eight


def _four_bits(
    quantize: Any,  # noqa: ANN401
    weight: Tensor,
    *,
    blocksize: int,
    compress_statistics: bool,
    quant_type: str,
    quant_storage: torch.dtype,
) -> Any:  # noqa: ANN401
    """Returns the codes and their state, as `quantize_4bit` of the library does."""
    functional = require_library().functional
    flat = weight.reshape(-1)
    codes = own_pages(-(-flat.numel() // 2))
    absmax = torch.empty(-(-flat.numel() // blocksize))
    state: Any = None
    for start in range(0, flat.numel(), PIECE_WEIGHTS):
        piece = flat[start : start + PIECE_WEIGHTS]
        quantized, state = quantize(piece, blocksize=blocksize, quant_type=quant_type)
        codes[start // 2 :][: quantized.numel()] = quantized.flatten()
        absmax[start // blocksize :][: state.absmax.numel()] = state.absmax
    nested: dict[str, Any] = {}
    if compress_statistics:
        offset = absmax.mean()
        absmax, second = functional.quantize_blockwise(absmax - offset, blocksize=SCALES_A_BLOCK)
        nested = {"offset": offset, "state2": second}
    state = functional.QuantState(
        absmax=absmax,
        shape=weight.shape,
        dtype=weight.dtype,
        blocksize=blocksize,
        code=state.code,
        quant_type=quant_type,
        **nested,
    )
    return codes.view(quant_storage).unsqueeze(1), state
