"""The memory of optimizers: what each keeps for the trained parameters, and takes in a step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zoo.backends.optimizer_spec import PROJECTED, OptimizerSpec

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
        rows_together: the rows of which Adam-mini keeps one average; those of an attention head.
    """

    rows: int
    columns: int
    count: int
    linear: bool = True
    rows_together: int = 1

    @property
    def size(self) -> int:
        """The values of all of them."""
        return self.rows * self.columns * self.count


@dataclass(frozen=True)
class Trained:
    """The trained parameters: matrices, the number of values in vectors, and of vectors.

    Attributes:
        matrices: by shape.
        vectors: the number of values in vectors.
        tensors: the number of vectors.
        blocks: how many blocks of the model the linear matrices are in.
        named: those of the matrices whose gradients are projected by name; None: all of blocks.
    """

    matrices: Sequence[Matrix]
    vectors: int = 0
    tensors: int = 0
    blocks: int = 1
    named: Sequence[Matrix] | None = None

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(matrix.size for matrix in self.matrices) + self.vectors

    @property
    def projected(self) -> Sequence[Matrix]:
        """The matrices whose gradients GaLore and APOLLO project."""
        if self.named is not None:
            return self.named
        return [matrix for matrix in self.matrices if matrix.linear]


def trained_parameters(shape: "Geometry", rank: int | None) -> Trained:
    """Returns the weights of an adapter of a rank on all linear layers, or all weights for None."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layers, head = shape.layers, shape.head_dim
    linear = [
        Matrix(queries, shape.hidden, layers, rows_together=head),
        Matrix(keys, shape.hidden, layers, rows_together=head),
        Matrix(keys, shape.hidden, layers),
        Matrix(shape.hidden, queries, layers),
        Matrix(shape.ffn, shape.hidden, layers),
        Matrix(shape.ffn, shape.hidden, layers),
        Matrix(shape.hidden, shape.ffn, layers),
    ]
    if rank is not None:
        inputs = [replace(matrix, rows=rank, rows_together=1) for matrix in linear]
        factors = [*inputs, *(replace(matrix, columns=rank) for matrix in linear)]
        return Trained(factors, blocks=layers)
    tables = Matrix(shape.vocab, shape.hidden, 1 if shape.tied else 2, linear=False)
    trained = Trained([*linear, tables])
    return Trained(trained.matrices, shape.parameters() - trained.size, 4 * layers + 1, layers)


def rotations(
    shape: "Geometry", rank: int, size: int, layers: Sequence[int] | None = None
) -> Trained:
    """Returns the weights of rotations of the inputs of linear layers (OFT).

    Args:
        shape: the model's shape.
        rank: the number of blocks in a layer; 0 if their size is given.
        size: the inputs in a block; 0 if their number is given.
        layers: the inputs of each rotated layer; None: all linear layers of blocks.
    """
    rotated = [
        Matrix(inputs // width, width * (width - 1) // 2, 1)
        for inputs, width in rotated_inputs(shape, rank, size, layers)
    ]
    return Trained(rotated, blocks=shape.layers)


def rotated_inputs(
    shape: "Geometry", rank: int, size: int, layers: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """Returns the inputs of each rotated layer, and how many of them rotate together."""
    linear = [matrix for matrix in trained_parameters(shape, None).matrices if matrix.linear]
    every = [matrix.columns for matrix in linear for _ in range(matrix.count)]
    return [
        (matrix, max(size or matrix // rank, 1)) for matrix in (every if layers is None else layers)
    ]


def state_bytes(trained: Trained, spec: OptimizerSpec) -> int:
    """Returns the bytes that the optimizer keeps from step to step."""
    return STATES[spec.name](trained, spec)


def gradient_bytes(trained: Trained, spec: OptimizerSpec) -> int:
    """Returns the bytes of the gradients that are there at once."""
    return 4 * (_block(trained) if spec.name == "badam" else trained.size)


def step_bytes(trained: Trained, spec: OptimizerSpec) -> int:
    """Returns the bytes that the optimizer takes during a step, for its largest matrix."""
    largest = _largest(trained.matrices) * COPIES.get(spec.name, 0)
    if spec.name in PROJECTED and spec.projection.kind == "svd":
        largest = max(largest, _largest(trained.projected) * COPIES_OF_SVD)
    return 4 * largest


def _largest(matrices: Sequence[Matrix]) -> int:
    return max((matrix.rows * matrix.columns for matrix in matrices), default=0)


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


def _muon(trained: Trained, spec: OptimizerSpec) -> int:
    """An average of each value of a block's matrices, and AdamW's two of the others."""
    del spec
    linear = sum(matrix.size for matrix in trained.matrices if matrix.linear)
    return 8 * trained.size - 4 * linear


def _adam_mini(trained: Trained, spec: OptimizerSpec) -> int:
    """An average of each value, and one of the squares of each group of rows."""
    del spec
    groups = sum(matrix.rows // matrix.rows_together * matrix.count for matrix in trained.matrices)
    return 4 * (trained.size + groups + trained.tensors)


def _galore(trained: Trained, spec: OptimizerSpec) -> int:
    """Two averages of projected gradients with the projection, and AdamW's of the others."""
    rest = max(trained.size - sum(matrix.size for matrix in trained.projected), 0)
    total = 0
    for matrix in trained.projected:
        small, large = sorted((matrix.rows, matrix.columns))
        rank = min(spec.projection.rank, small)
        total += matrix.count * rank * (8 * large + 4 * small)
    return 8 * rest + total


def _one_block(trained: Trained, spec: OptimizerSpec) -> int:
    """AdamW's two averages of the values of one block."""
    del spec
    return 8 * _block(trained)


def _eight_bits(trained: Trained, spec: OptimizerSpec) -> int:
    """Two averages of 8 bits with a float32 scale for 256 values, in layers of 4,096 and more."""
    del spec
    total = 0
    for matrix in trained.matrices:
        size = matrix.rows * matrix.columns
        small = not matrix.linear or size < LEAST_8_BITS
        total += matrix.count * (8 * size if small else 2 * (size + 4 * -(-size // 256)))
    return total + 8 * trained.vectors


def _paged(trained: Trained, spec: OptimizerSpec) -> int:
    """What stays on the device: the state of small tensors; the driver moves that of others."""
    del spec
    small = (matrix for matrix in trained.matrices if matrix.rows * matrix.columns < LEAST_PAGED)
    return 8 * (trained.vectors + sum(matrix.size for matrix in small))


def _block(trained: Trained) -> int:
    """Returns the values of one block, all vectors counted as theirs."""
    linear = sum(matrix.size for matrix in trained.matrices if matrix.linear)
    return (linear + trained.vectors) // trained.blocks


LEAST_8_BITS, LEAST_PAGED = 4096, 100_000
"""The values from which bitsandbytes keeps a matrix's state in 8 bits, and in paged memory."""

STATES: Mapping[str, Callable[[Trained, OptimizerSpec], int]] = {
    "adamw": _two,
    "muon": _muon,
    "adam_mini": _adam_mini,
    "lion": _one,
    "adafactor": _factors,
    "sgd": _none,
    "galore": _galore,
    "apollo": _galore,
    "apollo_mini": _galore,
    "badam": _one_block,
    "adamw_8bit": _eight_bits,
    "paged_adamw_8bit": _paged,
    "paged_adamw_32bit": _paged,
}
"""Name -> what it keeps. It leaves out step counts: a few bytes for each tensor."""

COPIES_OF_SVD = 5
"""Those of a matrix in a decomposition, measured."""

COPIES = {
    "muon": 3,
    "adam_mini": 1,
    "lion": 1,
    "adafactor": 3,
    "apollo": 1,
    "apollo_mini": 1,
    "paged_adamw_8bit": 2,
    "paged_adamw_32bit": 2,
}
"""Float32 copies of a matrix during its update."""
