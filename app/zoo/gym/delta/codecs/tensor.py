"""Encodes the change of one tensor as terms and their parts, and decodes and applies them.

It works on arrays, not files; they may be views of files, and results are in blocks of rows.
Legend: a tensor is treated as a matrix [rows, columns]; columns are its last dimension.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.dense import add_ints, add_signs, add_ternary, code_matrix
from zoo.gym.delta.codecs.floats import widened
from zoo.gym.delta.codecs.lowrank import add_product
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.codecs.values import Parts, Values, change_of, changed_values
from zoo.gym.delta.file.terms import (
    IntTerm,
    LowRankTerm,
    RawTerm,
    SignTerm,
    SparseTerm,
    TensorTerms,
    Term,
    TernaryTerm,
    rows_and_columns,
)
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoded:
    """The encoded change of a tensor: its terms, and the arrays of their parts."""

    tensor: TensorTerms
    arrays: Parts


def encode_tensor(name: str, base: Values, tuned: Values, coding: Dense) -> Encoded | None:
    """Encodes what a full fine-tune changed in a tensor; None if there is no change.

    The coding applies to matrices and tensors of more dimensions; vectors and scalars are stored as
    plain differences, unless the coding is lossless (`sparse`).

    Args:
        name: the tensor's name.
        base: its values before.
        tuned: its values after, in the same shape.
        coding: the coding of matrices.

    Raises:
        InputError: a value is not finite, or too large for a scale.
    """
    shape = tuple(base.values.shape)
    try:
        coded: tuple[Term, Parts] | None
        if coding.codec == "sparse":
            coded = _code_sparse(base, tuned)
        elif len(shape) < 2:
            change = change_of(base, tuned)
            coded = (RawTerm(), {"raw": change}) if change.any() else None
        else:
            matrix = rows_and_columns(shape)
            coded = code_matrix(base.reshape(matrix), tuned.reshape(matrix), coding)
    except InputError as error:
        raise InputError(
            f"tensor {name!r}: {error.message}", code=error.code or "delta.too_large"
        ) from error
    if coded is None:
        return None
    term, arrays = coded
    return Encoded(TensorTerms(name=name, shape=shape, terms=(term,)), arrays)


def _code_sparse(base: Values, tuned: Values) -> "tuple[SparseTerm, Parts] | None":
    steps, values, kind = changed_values(base, tuned)
    if not values.size:
        return None
    term = SparseTerm(count=values.size, index=steps.kind, steps=steps.index.size, values=kind)
    return term, {"sparse.value": values, "sparse.index": steps.index}


def decode_rows(
    tensor: TensorTerms,
    parts: Parts,
    rows: slice,
    base: "NDArray[np.float32] | None" = None,
) -> "NDArray[np.float32]":
    """Returns some rows of what a delta adds to a tensor: the sum of its terms, in order.

    Args:
        tensor: the tensor and its terms.
        parts: their complete parts; may be views of a file.
        rows: start and stop, within the tensor as a matrix.
        base: the same rows of the base; needed only for a sparse term.

    Raises:
        ValueError: a sparse term without the base.
    """
    import numpy as np

    columns = rows_and_columns(tensor.shape)[1]
    total = np.zeros((rows.stop - rows.start, columns), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # refused on writing
        for term in tensor.terms:
            if isinstance(term, RawTerm):
                total += parts["raw"].reshape(-1, columns)[rows]
            elif isinstance(term, SparseTerm):
                if base is None:
                    where = f"{tensor.name}: a sparse term"
                    raise ValueError(f"{where} needs the base's values, got none")
                total += base
                _put_values(parts, total, rows)
                total -= base
            else:
                _add_term(tensor, term, parts, total, rows)
    return total


def _add_term(
    tensor: TensorTerms,
    term: SignTerm | TernaryTerm | IntTerm | LowRankTerm,
    parts: Parts,
    total: "NDArray[np.float32]",
    rows: slice,
) -> None:
    match term:
        case SignTerm():
            add_signs(term, parts, total, rows)
        case TernaryTerm():
            add_ternary(parts, total, rows)
        case IntTerm():
            add_ints(term, parts, total, rows)
        case LowRankTerm():
            add_product(term, parts, tensor.shape, total, rows)


def apply_rows(
    tensor: TensorTerms,
    parts: Parts,
    rows: slice,
    values: "NDArray[np.float32]",
    *,
    scaled: float = 1.0,
) -> None:
    """Changes some rows of the base, in float32, to those of the fine-tune, in place.

    Args:
        tensor: the tensor and its terms.
        parts: their complete parts.
        rows: start and stop, within the tensor as a matrix.
        values: the same rows of the base; changed in place.
        scaled: the factor for the delta; with 1, a sparse term gives the exact fine-tune.
    """
    import numpy as np

    if not tensor.terms:
        return  # adding a zero change would turn -0.0 into 0.0
    if scaled == 1.0 and any(isinstance(term, SparseTerm) for term in tensor.terms):
        _put_values(parts, values, rows)
        return
    change = decode_rows(tensor, parts, rows, values)
    with np.errstate(over="ignore", invalid="ignore"):
        if scaled != 1.0:
            change *= np.float32(scaled)
        values += change


def _put_values(parts: Parts, values: "NDArray[np.float32]", rows: slice) -> None:
    from zoo.gym.delta.codecs.sparse import within

    columns = values.shape[1]
    which, places = within(parts["sparse.index"], rows.start * columns, rows.stop * columns)
    values.reshape(-1)[places] = widened(parts["sparse.value"][which])
