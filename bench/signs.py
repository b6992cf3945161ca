"""Packing and applying signs, compared with memory bandwidth and with plain torch expressions.

9728 x 2560 bfloat16, one process, one thread, cycling over several matrices, so that none of them
is in a near cache, and each kernel over all of them: the address in memory makes one up to a tenth
slower than another. *read* reads two streams, *in place* flips one in place, each with the fastest
instruction set for it; both on the buffers of the kernels.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from math import log
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from bench.isas import isas, kept_as
from bench.measure import Case, Skipped, alternated, median_ratio
from zoo.core import apply_signs, limits, pack_signs
from zoo.core.isa import Isa

ROWS, COLS = 9728, 2560
MATRICES = 5  # shares no factor with the number of works, which is a multiple of four
ROUNDS = 15
Work = Callable[[], object]


class Matrices:
    """Pairs to pack and weights to apply to, used in turn; outputs are overwritten."""

    def __init__(self, rows: int, cols: int, count: int = MATRICES) -> None:
        torch.manual_seed(0)
        noise = torch.randn(3, rows, cols).to(torch.bfloat16)
        sets = [tuple(part.clone() for part in noise) for _ in range(count)]
        self.sets = cycle(cast("list[tuple[Tensor, Tensor, Tensor]]", sets))
        self.out = pack_signs(noise[0], noise[1])
        self.bytes = 4 * rows * cols

    def read(self, isa: Isa) -> None:
        """Reads a pair."""
        base, tuned, _ = next(self.sets)
        limits.read(base, tuned, isa=isa, threads=1)

    def in_place(self, isa: Isa) -> None:
        """Flips one matrix."""
        limits.in_place(next(self.sets)[2], isa=isa, threads=1)

    def pack(self, isa: Isa | None, threads: int = 1) -> None:
        """Packs a pair."""
        base, tuned, _ = next(self.sets)
        pack_signs(base, tuned, out=self.out, isa=isa, threads=threads)

    def apply(self, isa: Isa | None, threads: int = 1) -> None:
        """Applies to one matrix."""
        apply_signs(next(self.sets)[2], *self.out, isa=isa, threads=threads)

    def torch_pack(self) -> None:
        """Packs in plain torch and NumPy."""
        base, tuned, _ = next(self.sets)
        difference = tuned.float() - base.float()
        np.packbits((difference > 0).numpy(), axis=1, bitorder="little")
        difference.abs().mean(dim=1)

    def torch_apply(self) -> None:
        """Applies in plain torch and NumPy."""
        weights = next(self.sets)[2]
        bits = np.unpackbits(self.out[0], axis=1, bitorder="little")
        signs = torch.from_numpy(bits).to(torch.bfloat16) * 2 - 1
        weights.add_(signs * torch.from_numpy(self.out[1])[:, None].to(torch.bfloat16))


def measured(works: Mapping[str, Work], rounds: int = ROUNDS) -> list[dict[str, float]]:
    """Returns the seconds of each work by round, with the faster limit under its plain name."""
    times = alternated(works, rounds)
    for limit in ("read", "in place"):
        names = [name for name in works if name.startswith(f"{limit} ")]
        best = min(names, key=lambda name: median(row[name] for row in times))
        for row in times:
            row[limit] = row[best]
    return times


def kernels(matrices: Matrices) -> dict[str, Work]:
    """Returns limits and kernels of each instruction set, by name."""
    works: dict[str, Work] = {}
    for isa in isas():
        works[f"read {isa}"] = partial(matrices.read, isa)
        works[f"pack {isa}"] = partial(matrices.pack, isa)
    for isa in isas():
        works[f"in place {isa}"] = partial(matrices.in_place, isa)
        works[f"apply {isa}"] = partial(matrices.apply, isa)
    return works


def speed_cases(matrices: Matrices, times: list[dict[str, float]]) -> Iterator[Case]:
    """Yields each kernel's share of its limit."""
    for isa in isas():
        for kernel, limit in (("pack", "read"), ("apply", "in place")):
            share = 1 / median_ratio(times, f"{kernel} {isa}", limit)
            speed = matrices.bytes / median(row[f"{kernel} {isa}"] for row in times) / 1e9
            bar = ">= 0.88" if isa == isas()[0] else ""
            bar = ">= 0.15" if (kernel, isa) == ("pack", "scalar") else bar
            yield Case(f"signs: {kernel}, {isa}", speed, "GB/s", limit, share, bar)


def against_torch(matrices: Matrices) -> Iterator[Case]:
    """Yields the speedup over plain torch expressions."""
    works: dict[str, Work] = {
        "pack": partial(matrices.pack, isas()[0]),
        "torch pack": matrices.torch_pack,
        "apply": partial(matrices.apply, isas()[0]),
        "torch apply": matrices.torch_apply,
    }
    times = alternated(works, 5)
    for kernel, bar in (("pack", ">= 50"), ("apply", ">= 60")):
        ratio = median_ratio(times, f"torch {kernel}", kernel)
        taken = median(row[kernel] for row in times)
        yield Case(f"signs: {kernel} and torch", taken, "CPU-s", "torch, x faster", ratio, bar)


def growth() -> Iterator[Case]:
    """Yields the exponents of CPU time over values, and over threads (0 is perfect)."""
    sizes = (ROWS // 8, ROWS // 4, ROWS // 2, ROWS)
    for kernel in ("pack", "apply"):
        works: dict[str, Work] = {}
        for rows in sizes:
            matrices = Matrices(rows, COLS, MATRICES * ROWS // rows)
            works[f"{rows}"] = partial(getattr(matrices, kernel), isas()[0])
        works["2 threads"] = partial(getattr(Matrices(ROWS, COLS), kernel), isas()[0], 2)
        times = alternated(works, 7)
        taken = {name: median(row[name] for row in times) for name in works}
        slope = _slope([(rows * COLS, taken[str(rows)]) for rows in sizes])
        yield Case(f"signs: {kernel}, growth", slope, "exponent", "number of values", slope, "")
        threads = log(taken["2 threads"] / taken[str(ROWS)], 2)
        yield Case(f"signs: {kernel}, CPU", threads, "exponent", "1 to 2 threads", threads, "")


def _slope(points: list[tuple[int, float]]) -> float:
    """Returns the best-fitting exponent."""
    sizes, times = zip(*points, strict=True)
    fitted: Any = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(fitted[0])


def run() -> Iterator[Case | Skipped]:
    """Yields every case."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    matrices = Matrices(ROWS, COLS)
    times = measured(kernels(matrices))
    yield from speed_cases(matrices, times)
    if {"avx512", "avx2"} <= set(isas()):
        for kernel in ("pack", "apply"):
            ratio = median_ratio(times, f"{kernel} avx2", f"{kernel} avx512")
            yield Case(f"signs: {kernel}, AVX2", ratio, "x time", "AVX-512", ratio, "<= 1.05")
    else:
        yield Skipped("signs: AVX2 against AVX-512", "AVX-512 is not measured")
    yield from against_torch(matrices)
    yield from growth()
    torch.set_num_threads(threads)


def result_name() -> str:
    """Returns the name of the result file."""
    return kept_as("signs")
