"""Contributions that every process of a test makes alike."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.round_forms import in_form
from zoo.gym.rounds.encodings import Contributions, Factors, LowRank
from zoo.gym.rounds.protocol.manifest import Tensor

Matrix = NDArray[np.float32]

SHAPES = {f"layer.{number}": (20 + number, 64) for number in range(6)}
TENSORS = [Tensor(name=name, shape=shape) for name, shape in SHAPES.items()]
DIGESTS = [f"{number:064x}" for number in range(7)]


def parts_of(form: str, names: Sequence[str], count: int = len(DIGESTS)) -> Contributions:
    """Returns some tensors of seven contributions."""
    made = {name: _values(name, count) for name in names}
    if form != "lowrank":
        rows = {name: np.stack(each).reshape(count, -1) for name, each in made.items()}
        return in_form(form, rows)
    factors = {name: [_factors(row) for row in rows] for name, rows in made.items()}
    return LowRank({name: Factors(*zip(*each, strict=True)) for name, each in factors.items()})


def _factors(row: Matrix) -> tuple[Matrix, Matrix]:
    """Returns A [2, inputs] and B [2, outputs]."""
    return row[:2], np.ascontiguousarray(row[2:4, : row.shape[0]])


def _values(name: str, count: int) -> list[Matrix]:
    rng = np.random.default_rng(list(SHAPES).index(name))
    return [rng.standard_normal(SHAPES[name], np.float32) for _ in range(count)]
