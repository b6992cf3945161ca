"""Measures which products are fast on this processor: float32, bf16, or widened bf16.

Processors with bf16 arithmetic multiply bf16 in half of float32's time; others take five times as
long, and a hundred times for a gradient. It has to be measured, because what torch does depends on
the processor, on its build and on the variables in `LIMITS`.
"""

import functools
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.backends.torch.numbers.widened import widened_gradient, widened_product

TOKENS, WIDTH = 64, 1024
"""The measured product: `TOKENS` tokens times a square matrix of `WIDTH`."""

ROUNDS = 5
BUDGET_S = 0.5
"""The time limit per product; a slow one takes a single round."""

LIMITS = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
)
"""Environment variables that disable or enable instruction sets in torch's libraries."""


@dataclass(frozen=True)
class ProductSpeeds:
    """Seconds of one thread for a product and its gradient, `TOKENS` x `WIDTH` x `WIDTH`."""

    f32_s: float
    bf16_s: float
    widened_s: float

    @property
    def bf16_pays(self) -> bool:
        """Whether bf16 products are the fastest way to multiply bf16 weights."""
        return self.bf16_s < min(self.widened_s, self.f32_s)

    def describe(self) -> str:
        """Returns a sentence with the speed of bf16 relative to float32."""
        times = self.bf16_s / self.f32_s
        if times < 1:
            return f"bf16 products are {1 / times:.3g} times as fast as float32 ones here"
        return f"bf16 products take {times:.3g} times as long as float32 ones here"

    def widening_share(self, tokens: int) -> float:
        """Returns the share of time that widening adds to float32 products of `tokens` tokens."""
        return max(0.0, self.widened_s / self.f32_s - 1) * TOKENS / max(1, tokens)


def processor_key() -> dict[str, str]:
    """Returns what the speeds depend on; a measurement is valid while this is unchanged."""
    facts = {"machine": platform.machine(), "processor": _processor()}
    facts |= {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}
    return facts | {name: os.environ.get(name, "") for name in LIMITS}


def _processor() -> str:
    """Returns the features of the processor on Linux, else its name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = [line for line in file if line.startswith(("model name", "flags", "Features"))]
    except OSError:
        return platform.processor()
    return "".join(dict.fromkeys(lines))


@functools.cache
def measure_products() -> ProductSpeeds:
    """Measures each kind of product with one thread.

    It takes 0.2 seconds, or 0.5 if bf16 is slow, once per process.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return _measured()
    finally:
        torch.set_num_threads(threads)


def _measured() -> ProductSpeeds:
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(TOKENS, WIDTH, generator=stream)
    narrow_x, narrow = x.bfloat16(), torch.randn(WIDTH, WIDTH, generator=stream).bfloat16()
    wide = narrow.float()

    def plain(left: Tensor, weight: Tensor) -> None:
        torch.mm(left, weight.T)
        torch.mm(left, weight)

    def widened() -> None:
        widened_product(x, narrow)
        widened_gradient(x, narrow)

    return ProductSpeeds(
        f32_s=_quickest(lambda: plain(x, wide)),
        bf16_s=_quickest(lambda: plain(narrow_x, narrow)),
        widened_s=_quickest(widened),
    )


def _quickest(work: Callable[[], object]) -> float:
    """Returns the seconds of the fastest round, as other load can only slow it down."""
    times, spent = list[float](), 0.0
    while len(times) <= ROUNDS and spent < BUDGET_S:
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
        spent += times[-1]
    return min(times)
