"""Letting a CPU multiply 16-bit values with its own units for them."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def exact_products(stored: torch.dtype, hidden: torch.dtype) -> Generator[None]:
    """Lets float32 products use the CPU's bf16 units where the weights are bf16 anyway.

    So are the hidden states of a model that multiplies in bf16; a model whose products are
    float32 runs on a processor where they are faster.

    Factors that were widened from bf16 lose nothing: their products are exact and are summed in
    float32. A probability is rounded to bf16 as a factor only. Processors without such units and
    float32 weights compute as ever.
    """
    setting: Any = getattr(torch.backends.mkldnn, "matmul", None)  # torch 2.9 has it
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    both = stored is torch.bfloat16 and hidden is torch.bfloat16
    if not both or setting is None or not available:
        yield
        return
    before = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before
