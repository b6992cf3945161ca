"""Letting a CPU multiply 16-bit values with its own units for them."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def exact_products(stored: torch.dtype) -> Generator[None]:
    """Lets float32 products use the CPU's bf16 units where the weights are bf16 anyway.

    Factors that were widened from bf16 lose nothing: their products are exact and are summed in
    float32. A probability is rounded to bf16 as a factor only. Processors without such units and
    float32 weights compute as ever.
    """
    setting: Any = getattr(torch.backends.mkldnn, "matmul", None)  # torch 2.9 has it
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if stored is not torch.bfloat16 or setting is None or not available:
        yield
        return
    before = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before
