"""Aggregation kernels against torch's Gram matrix, NumPy's sort, and the machine's limits.

One process, one thread, CPU seconds, measured alternately. *registers*: the kernel's inner
instructions without memory. *read*: reading the packed rows, two streams xored in registers. Torch
multiplies whole matrices; we compute half of the pairs but count all. The float matrix of
1,000 x 1,000,000 would take 4 GB, so torch and NumPy process 16 pieces of the columns one after the
other, which is linear for both, and for NumPy's transposed copy faster than the whole.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.isas import isas, kept_as
from bench.measure import Case, Skipped, alternated, median_ratio
from zoo.core import (
    _core,
    hamming,
    limits,
    majority,
    median,
    sign_mean,
    trimmed_mean,
)

N, D = 1000, 1_000_000
PIECES = 16
GRAM_BARS = {"avx512": ">= 0.80", "avx2": ">= 0.70", "scalar": ">= 0.70", "neon": ""}

NO_BARS = {"scalar": "", "neon": ""}
BARS: dict[str, dict[str, str]] = {
    "gram": {"avx512": ">= 34", "avx2": ">= 15"} | NO_BARS,
    "majority": {"avx512": ">= 0.7", "avx2": ">= 0.54"} | NO_BARS,
    "weighted mean": {"avx512": "", "avx2": ">= 0.06"} | NO_BARS,
}
"""With AVX2 at least 1.5 times the earlier result on an EPYC (Zen 4)."""

SIZES = {"n": (125, 250, 500, 1000), "d": (32_000, 64_000, 128_000, 256_000)}

Floats = NDArray[np.float32]


def packed(n: int, cols: int, seed: int = 0) -> tuple[NDArray[np.uint8], Floats]:
    """Returns random signs and scales."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 256, (n, -(-cols // 8)), np.uint8)
    return bits, random.uniform(0.5, 1.5, n).astype(np.float32)


def sort_mean(rows: Floats, trim: int) -> Floats:
    """The plain way: a transposed copy, NumPy's SIMD sort, a mean of the middle."""
    columns = np.ascontiguousarray(rows.T)
    columns.sort(axis=1)
    kept: Floats = columns[:, trim : rows.shape[0] - trim].mean(axis=1)
    return kept


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    torch.set_num_threads(1)
    bits, scales = packed(N, D)
    yield from _registers(bits)
    yield from _against_floats(bits, scales)
    yield from _votes(bits, scales)
    yield from _dense()
    yield from _growth(bits)
    yield from _threads(bits)


def _middle(rounds: list[dict[str, float]], name: str) -> float:
    return sorted(times[name] for times in rounds)[len(rounds) // 2]


def _registers(bits: NDArray[np.uint8]) -> Iterator[Case | Skipped]:
    """The whole Gram matrix against the same number of inner steps on registers."""
    for isa, bar in GRAM_BARS.items():
        name = f"gram {isa}"
        if isa not in isas():
            yield Skipped(name, f"{isa} is not measured")
            continue
        steps = 3_000_000
        compared = _core.popcount_registers(steps, isa)
        cols = D // 4 if isa == "scalar" else D  # scalar code would take five seconds for all
        rows = np.ascontiguousarray(bits[:, : cols // 8])
        works: Mapping[str, Callable[[], object]] = {
            "ours": partial(hamming, rows, cols, isa=isa, threads=1),
            "registers": partial(_core.popcount_registers, steps, isa),
        }
        rounds = alternated(works, 7)
        pairs = N * (N - 1) / 2 * cols
        ratio = median_ratio(rounds, "registers", "ours") * pairs / compared
        rate = pairs / _middle(rounds, "ours") / 1e12
        yield Case(name, rate, "Tbit/s", "registers", ratio, bar)


def _against_floats(bits: NDArray[np.uint8], scales: Floats) -> Iterator[Case]:
    """The Gram matrix against torch, at the full size."""
    mine = alternated({"gram": lambda: hamming(bits, D, isa=isas()[0], threads=1)}, 3)
    theirs = 0.0
    for piece in range(PIECES):
        odd = D // PIECES + 1  # an even stride would make the transposed copy slower
        part = np.unpackbits(bits[:, piece * D // PIECES // 8 :], 1, odd, "little")
        rows = (part.astype(np.float32) * 2 - 1) * scales[:, None]
        tensor = torch.from_numpy(rows)
        work = {"gram": partial(torch.matmul, tensor, tensor.T)}
        theirs += alternated(work, 1, warm=piece == 0)[0]["gram"]
    gram, bar = _middle(mine, "gram"), BARS["gram"][isas()[0]]
    yield Case("gram n=1000 d=1e6", gram, "CPU-s", "torch X @ X.T", theirs / gram, bar)


def _votes(bits: NDArray[np.uint8], scales: Floats) -> Iterator[Case]:
    how: dict[str, Any] = {"isa": isas()[0], "threads": 1}
    halves = np.split(bits.reshape(-1), 2)
    works: Mapping[str, Callable[[], object]] = {
        "read": lambda: limits.read(halves[0], halves[1], **how),
        "majority": lambda: majority(bits, D, **how),
        "weighted mean": lambda: sign_mean(bits, D, scales, weights=scales[::-1].copy(), **how),
        "mean": lambda: sign_mean(bits, D, scales, **how),
        "mean, equal scales": lambda: sign_mean(bits, D, np.ones(N, np.float32), **how),
    }
    rounds = alternated(works, 9)
    for name in [name for name in works if name != "read"]:
        bar = BARS[name][isas()[0]] if name in BARS else ""
        ratio = median_ratio(rounds, "read", name)
        yield Case(f"{name} n=1000 d=1e6", _middle(rounds, name), "CPU-s", "read", ratio, bar)


def _dense() -> Iterator[Case]:
    rows = np.random.default_rng(0).standard_normal((100, 200_001), np.float32)
    works: Mapping[str, Callable[[], object]] = {
        "NumPy sort": lambda: sort_mean(rows, 10),
        "trimmed mean": lambda: trimmed_mean(rows, 10, isa=isas()[0], threads=1),
        "median": lambda: median(rows, isa=isas()[0], threads=1),
    }
    rounds = alternated(works, 5)
    for name, bar in (("trimmed mean", ">= 1.6"), ("median", "")):
        ratio = median_ratio(rounds, "NumPy sort", name)
        yield Case(f"f32 {name} n=100", _middle(rounds, name), "CPU-s", "NumPy sort", ratio, bar)


def _growth(bits: NDArray[np.uint8]) -> Iterator[Case]:
    """Time against n and d: the exponents of a straight line through the logarithms."""
    kernels: dict[str, Callable[[int, int], Any]] = {
        "gram": lambda n, d: hamming(bits[:n, : d // 8], d, isa=isas()[0], threads=1),
        "majority": lambda n, d: majority(bits[:n, : d // 8], d, isa=isas()[0], threads=1),
    }
    for name, kernel in kernels.items():
        for axis, sizes in (
            ("n", (125, 250, 500, 1000)),
            ("d", (32_000, 64_000, 128_000, 256_000)),
        ):
            works: dict[str, Callable[[], object]] = {
                str(size): partial(kernel, *((size, 128_000) if axis == "n" else (500, size)))
                for size in sizes
            }
            rounds = alternated(works, 5)
            times = [_middle(rounds, str(size)) for size in sizes]
            exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
            yield Case(f"{name}: growth with {axis}", times[-1], "CPU-s", f"{axis}^x", exponent, "")


def _threads(bits: NDArray[np.uint8]) -> Iterator[Case | Skipped]:
    """Wall-clock time on one thread and on two."""
    if len(os.sched_getaffinity(0)) < 2:
        yield Skipped("growth with threads", "one processor only")
        return
    kernels: dict[str, Callable[[int], object]] = {
        "gram": lambda threads: hamming(bits[:500], D, isa=isas()[0], threads=threads),
        "majority": lambda threads: majority(bits, D, isa=isas()[0], threads=threads),
    }
    for name, kernel in kernels.items():
        times = {1: float("inf"), 2: float("inf")}
        for threads in (1, 2) * 4:
            started = time.perf_counter()
            kernel(threads)
            times[threads] = min(times[threads], time.perf_counter() - started)
        exponent = float(np.log2(times[2] / times[1]))
        yield Case(f"{name}: growth with threads", times[2], "s", "threads^x", exponent, "")


def result_name() -> str:
    """Returns the name of the result file."""
    return kept_as("aggregate")
