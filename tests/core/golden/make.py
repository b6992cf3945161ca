"""Makes the aggregators' golden bytes; `make golden` runs it.

Inputs are from a generator of two lines and scales are fractions of sixteenths, so nobody's library
shows in the bytes; the definitions, on one thread, make the results.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo import core

GOLDEN = Path(__file__).parent / "aggregates.json"
ROWS, COLUMNS = 21, 203

Make = Callable[[dict[str, Any]], NDArray[Any]]


def numbers(count: int, seed: int) -> NDArray[np.uint8]:
    """Returns pseudo-random bytes: the upper ones of a linear congruential generator."""
    found: list[int] = []
    for _ in range(count):
        seed = (seed * 1_664_525 + 1_013_904_223) % 2**32
        found.append(seed >> 24)
    return np.array(found, np.uint8)


def aggregators() -> dict[str, Make]:
    """Returns every aggregator by name, over one round; each takes `isa` and `threads`."""
    width = (COLUMNS + 7) // 8
    rows = list(numbers(ROWS * width, 1).reshape(ROWS, width))
    scales, weights = ((numbers(ROWS, seed) / 16).astype(np.float32) for seed in (2, 3))
    scales[4] = 0
    floats = list((numbers(ROWS * COLUMNS, 4).astype(np.float32) - 128).reshape(ROWS, COLUMNS) / 16)
    return {
        "hamming": lambda how: core.hamming(rows, COLUMNS, **how),
        "majority": lambda how: core.majority(rows, COLUMNS, **how),
        "sign_mean": lambda how: core.sign_mean(rows, COLUMNS, scales, **how),
        "sign_mean weighted": lambda how: core.sign_mean(
            rows, COLUMNS, scales, weights=weights, **how
        ),
        "trimmed_mean": lambda how: core.trimmed_mean(floats, 4, **how),
        "median": lambda how: core.median(floats, **how),
        "near_median": lambda how: core.near_median(floats, 9, **how),
        "weighted_mean": lambda how: core.weighted_mean(floats, weights, **how),
        "float_gram": lambda how: core.float_gram(floats, **how),
        "mix_gram": lambda how: mixed(floats, how),
        "krum_order": lambda how: core.krum_order(mixed(floats, how), 6, threads=how["threads"]),
    }


def mixed(floats: list[NDArray[np.float32]], how: dict[str, Any]) -> NDArray[np.int64]:
    """Returns the Gram matrix of rows that are mixed with their 14 nearest."""
    gram = core.whole_gram(core.float_gram(floats, **how))
    return core.mix_gram(gram, core.nearest(gram, 15, threads=how["threads"]), **how)


def main() -> None:
    """Writes the golden file."""
    how = {"isa": "scalar", "threads": 1}
    found = {name: make(how).tobytes().hex() for name, make in aggregators().items()}
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
