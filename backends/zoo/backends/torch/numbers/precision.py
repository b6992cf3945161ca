"""Uses a CPU's bf16 units for products of 16-bit values."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def exact_products(stored: torch.dtype, hidden: torch.dtype) -> Generator[None]:
    """Lets float32 products use the CPU's bf16 units if weights and hidden states are bf16.

    A model with float32 products runs on a processor where those are faster.

    Factors that were widened from bf16 lose nothing: their products are exact and are summed in
    float32. A probability is rounded to bf16 only as a factor. Without such units, or with float32
    weights, this has no effect.
    """
    setting: Any = getattr(torch.backends.mkldnn, "matmul", None)  # torch 2.9 has it
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    both = stored is torch.bfloat16 and hidden is torch.bfloat16
    if not both or setting is None or not available:
        yield
        return
    previous = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = previous
