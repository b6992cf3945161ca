"""The product of tokens with sign bits, compared with our dense bf16 product and torch's.

One thread, 9728x2560 (a zen-eco feed-forward matrix). The dense matrix is 49.8 MB, its bits 3.1 MB:
three dense matrices and sixteen of bits are used in turn, so that neither stays in a core's own
caches; a server's shared cache of hundreds of MB may still contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import cycle, product
from math import log
from statistics import median
from typing import TYPE_CHECKING, Literal

from bench.isas import isas, kept_as
from bench.measure import Case, Skipped, alternated, median_ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core.isa import Isa

ROWS, COLS = 9728, 2560
TOKENS = (1, 4, 16, 64)
REPEATS = 5
"""Calls that are measured together: one takes less than the clock's resolution."""

Method = Literal["exact", "int8"]


class Matrices:
    """The matrices to multiply; each call uses the next one."""

    def __init__(self) -> None:
        """Draws weights like those of a trained model, random bits, and tokens."""
        import numpy as np
        import torch

        random = np.random.default_rng(0)
        weights = [random.standard_normal((ROWS, COLS), np.float32) * 0.02 for _ in range(3)]
        self.bf16 = [(wide.view(np.uint32) >> 16).astype(np.uint16) for wide in weights]
        self.torch = [torch.from_numpy(w.view(np.int16)).view(torch.bfloat16) for w in self.bf16]
        # In one allocation, like the dense ones: small ones would be in small memory pages.
        self.bits = list(random.integers(0, 256, (16, ROWS, COLS // 8), np.uint8))
        self.scales = random.random(ROWS, np.float32)
        self.x_TI = random.standard_normal((max(TOKENS), COLS), np.float32)

    def dense(self, isa: Isa) -> Callable[[], object]:
        """Returns the dense product of one token."""
        import numpy as np

        from zoo.core import dense_product

        turn, out = cycle(self.bf16), np.empty((1, ROWS), np.float32)
        return lambda: dense_product(self.x_TI[:1], next(turn), out=out, isa=isa, threads=1)

    def torch_mv(self) -> Callable[[], object]:
        """Returns torch's dense product of one bf16 token."""
        import torch

        turn, x_I = cycle(self.torch), torch.from_numpy(self.x_TI[0]).bfloat16()
        return lambda: torch.mv(next(turn), x_I)

    def signs(self, method: Method, isa: Isa, tokens: int = 1) -> Callable[[], object]:
        """Returns the product of tokens with signs."""
        import numpy as np

        from zoo.core import sign_product

        turn, out = cycle(self.bits), np.empty((tokens, ROWS), np.float32)
        x_TI, scales = self.x_TI[:tokens], self.scales
        return lambda: sign_product(
            x_TI, next(turn), scales, method=method, out=out, isa=isa, threads=1
        )

    def error(self, method: Method, isa: Isa) -> float:
        """Returns the distance from float64, relative to the product's norm."""
        import numpy as np

        from zoo.core import sign_product

        x_TI, bits = self.x_TI[:4], self.bits[0]
        signs_OI = 2.0 * np.unpackbits(bits, axis=1, bitorder="little") - 1
        want: NDArray[np.float64] = x_TI.astype(np.float64) @ signs_OI.T * self.scales
        got = sign_product(x_TI, bits, self.scales, method=method, isa=isa)
        return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def repeated(work: Callable[[], object]) -> Callable[[], None]:
    """Returns a function that repeats the work several times."""

    def several() -> None:
        for _ in range(REPEATS):
            work()

    return several


def run() -> Iterator[Case | Skipped]:
    """Yields times compared with the dense product, errors, and the growth with tokens."""
    import torch

    torch.set_num_threads(1)
    matrices, best = Matrices(), isas()[0]
    yield from one_token(matrices, isas())
    yield from (Skipped(f"product {isa}", "not here") for isa in ("avx512",) if isa not in isas())
    yield from of_registers(matrices)
    bars: dict[Method, str] = {"exact": "<= 1e-06", "int8": "<= 0.015"}
    for method, bar in bars.items():
        error = matrices.error(method, best)
        yield Case(f"product {method} error", error, "relative", "float64", error, bar)
        yield from growth(matrices, method, best)


def one_token(matrices: Matrices, measured: tuple[Isa, ...]) -> Iterator[Case | Skipped]:
    """Yields the products of one token with each instruction set, the dense one first."""
    works = {f"dense {isa}": matrices.dense(isa) for isa in measured if isa != "scalar"}
    works["torch.mv"] = matrices.torch_mv()
    methods: tuple[Method, ...] = ("exact", "int8")
    for method in methods:
        works |= {f"product {method} {isa}": matrices.signs(method, isa) for isa in measured}
    against = next(iter(works))
    read = read_limit(matrices)
    if not isinstance(read, Skipped):
        works["read"] = read
    rounds = alternated({name: repeated(work) for name, work in works.items()}, 9)
    bars = {f"product int8 {measured[0]}": "<= 0.17", f"product exact {measured[0]}": "<= 0.3"}
    if measured[0] == "avx2":  # half as many rows per register, and a sign to apply
        bars |= {"product int8 avx2": "<= 0.2", "product exact avx2": "<= 0.45"}
    for name in works:
        seconds = median(times[name] for times in rounds) / REPEATS
        ratio = median_ratio(rounds, name, against)
        yield Case(name, seconds, "CPU-s", against, ratio, bars.get(name, ""))
    if isinstance(read, Skipped):
        yield read
        return
    share = median_ratio(rounds, "read", against)
    yield Case(f"{against}, of read", share, "of rate", "read", share, ">= 0.85")


def of_registers(matrices: Matrices) -> Iterator[Case]:
    """Yields the products' rates relative to their inner loops on data in the first-level cache."""
    from zoo.core import _core

    blocks = ROWS * COLS // (16 * 1024)
    methods: tuple[Method, ...] = ("exact", "int8")
    works: dict[str, Callable[[], object]] = {}
    for method, isa in product(methods, isas()):
        works[f"{method} {isa}"] = matrices.signs(method, isa)
        works[f"{method} {isa}, inner loop"] = partial(
            _core.product_registers, blocks, exact=method == "exact", isa=isa
        )
    rounds = alternated({name: repeated(work) for name, work in works.items()}, 9)
    for method, isa in product(methods, isas()):
        name = f"{method} {isa}"
        share = median_ratio(rounds, f"{name}, inner loop", name)
        rate = ROWS * COLS * REPEATS / median(times[name] for times in rounds) / 1e9
        yield Case(f"product {name}, of registers", rate, "Gsigns/s", "registers", share, "")


def read_limit(matrices: Matrices) -> Callable[[], object] | Skipped:
    """Returns a function that reads as many bytes as a dense matrix has, in two streams."""
    try:
        limits = import_module("zoo.core.limits")
    except ModuleNotFoundError:
        return Skipped("dense, of read", "zoo.core.limits is not there yet")
    turn = cycle(matrices.bf16)

    def read() -> None:
        matrix = next(turn)
        limits.read(matrix[: ROWS // 2], matrix[ROWS // 2 :], isa=isas()[0], threads=1)

    return read


def growth(matrices: Matrices, method: Method, isa: Isa) -> Iterator[Case]:
    """Yields the time per number of tokens, and the exponent from each to the next."""
    works = {str(n): repeated(matrices.signs(method, isa, n)) for n in TOKENS}
    rounds = alternated(works, 3)
    seconds = {n: median(times[str(n)] for times in rounds) / REPEATS for n in TOKENS}
    for before, n in zip((1, *TOKENS), TOKENS, strict=False):
        name = f"product {method}, {n} tokens"
        exponent = log(seconds[n] / seconds[before]) / log(n / before) if n > before else 0.0
        yield Case(name, seconds[n], "CPU-s", "1 token: exponent", exponent, "")


def result_name() -> str:
    """Returns the name of the result file."""
    return kept_as("product")
