"""The memory of optimizers: what each keeps for the trained parameters, and takes in a step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.backends.spec import OptimizerSpec

if TYPE_CHECKING:
    from zoo.models.registry import Geometry


@dataclass(frozen=True)
class Matrix:
    """Trained matrices of one shape.

    Attributes:
        rows: their outputs.
        columns: their inputs.
        count: how many there are.
        linear: whether they are layers of a block; False for embeddings and heads.
    """

    rows: int
    columns: int
    count: int
    linear: bool = True

    @property
    def size(self) -> int:
        """The values of all of them."""
        return self.rows * self.columns * self.count


@dataclass(frozen=True)
class Trained:
    """The trained parameters: matrices, and the number of values in vectors."""

    matrices: Sequence[Matrix]
    vectors: int = 0

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(matrix.size for matrix in self.matrices) + self.vectors


def trained_parameters(shape: "Geometry", rank: int | None) -> Trained:
    """Returns the weights of an adapter of a rank on all linear layers, or all weights for None."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    pairs = [(queries, shape.hidden), (keys, shape.hidden), (keys, shape.hidden)]
    pairs += [(shape.hidden, queries), (shape.ffn, shape.hidden), (shape.ffn, shape.hidden)]
    pairs += [(shape.hidden, shape.ffn)]
    if rank is not None:
        halves = [half for rows, columns in pairs for half in ((rank, columns), (rows, rank))]
        return Trained([Matrix(*half, shape.layers) for half in halves])
    linear = [Matrix(*pair, shape.layers) for pair in pairs]
    tables = Matrix(shape.vocab, shape.hidden, 1 if shape.tied else 2, linear=False)
    trained = Trained([*linear, tables])
    return Trained(trained.matrices, shape.parameters() - trained.size)


def state_bytes(trained: Trained, spec: OptimizerSpec) -> int:
    """Returns the bytes that the optimizer keeps from step to step."""
    return STATES[spec.name](trained, spec)


def step_bytes(trained: Trained, spec: OptimizerSpec) -> int:
    """Returns the bytes that the optimizer takes during a step, for its largest matrix."""
    largest = max(matrix.rows * matrix.columns for matrix in trained.matrices)
    return 4 * largest * COPIES.get(spec.name, 0)


def _two(trained: Trained, spec: OptimizerSpec) -> int:
    """Two averages of each value."""
    del spec
    return 8 * trained.size


def _one(trained: Trained, spec: OptimizerSpec) -> int:
    """One average of each value."""
    del spec
    return 4 * trained.size


def _none(trained: Trained, spec: OptimizerSpec) -> int:
    del trained, spec
    return 0


def _factors(trained: Trained, spec: OptimizerSpec) -> int:
    """An average of each row and of each column, and of each value of a vector."""
    del spec
    edges = sum((matrix.rows + matrix.columns) * matrix.count for matrix in trained.matrices)
    return 4 * (edges + trained.vectors)


STATES: Mapping[str, Callable[[Trained, OptimizerSpec], int]] = {
    "adamw": _two,
    "lion": _one,
    "adafactor": _factors,
    "sgd": _none,
}
"""Name -> what it keeps. It leaves out step counts: a few bytes for each tensor."""

COPIES = {"lion": 1, "adafactor": 3}
"""Float32 copies of a matrix during its update."""
