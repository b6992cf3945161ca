"""Compares a fine-tune with its base, tensor by tensor, and encodes the changes.

It checks names and shapes; `zoo.gym.delta.codecs` encodes a tensor.
"""

from typing import TYPE_CHECKING

from zoo.gym.delta.codecs.lowrank import code_factors
from zoo.gym.delta.codecs.options import Dense, LowRank
from zoo.gym.delta.codecs.tensor import Encoded, encode_tensor
from zoo.gym.delta.file.terms import TensorTerms
from zoo.gym.delta.reading.adapter import Adapter
from zoo.gym.delta.reading.weights import (
    CONSTANTS,
    FLOATS,
    Weights,
    is_tied,
    own_tensors,
    read_values,
    same_values,
    stored_bytes,
)
from zoo.gym.errors import InputError
from zoo.models.tied_head import HEAD, head_is_copy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def adapter_names(adapter: Adapter, base: Weights) -> list[str]:
    """Returns the linear layers that an adapter changes, sorted.

    Raises:
        InputError: the adapter does not fit the base, or changes a tied head.
    """
    tied = is_tied(base)
    for name in sorted(adapter.factors):
        _check_target(adapter, base, name, tied=tied)
    return sorted(adapter.factors)


def encode_factors(
    name: str, A: "NDArray[np.float32]", B: "NDArray[np.float32]", coding: LowRank
) -> Encoded | None:
    """Encodes the factors A [r, in] and B [r, out]; None if their product is zero.

    Raises:
        InputError: the values of a group overflow float16; the message has the tensor.
    """
    if not (A.any() and B.any()):
        return None
    term, arrays = code_factors(name, A, B, coding)
    tensor = TensorTerms(name=name, shape=(B.shape[1], A.shape[1]), terms=(term,))
    return Encoded(tensor, arrays)


def _check_target(adapter: Adapter, base: Weights, name: str, *, tied: bool) -> None:
    where = f"{adapter.weights.source}: {name!r}"
    if tied and name == HEAD:
        raise InputError(
            f"{where} is tied to the embedding: a delta cannot change it alone", code="delta.tied"
        )
    if name not in base.tensors:
        raise InputError(
            f"{where}: the base {base.source} has no such tensor", code="delta.no_such_tensor"
        )
    product = adapter.shape(name)
    if product != base.shape(name):
        expected, got = list(base.shape(name)), list(product)
        raise InputError(
            f"{where}: expected shape {expected} as in the base, got {got}",
            code="delta.other_shape",
        )
    if base.dtype(name) not in FLOATS:
        expected_types = f"expected a type of {', '.join(FLOATS)} in the base"
        raise InputError(
            f"{where}: {expected_types}, got {base.dtype(name)!r}", code="delta.bad_type"
        )


def encode_weight(base: Weights, tuned: Weights, name: str, coding: Dense) -> Encoded | None:
    """Encodes what a full fine-tune changed in a tensor; None if there is no change.

    Raises:
        InputError: a value is not finite, or too large for a scale.
    """
    if _same_bytes(base, tuned, name):  # also for constants, which may be integers or infinite
        return None
    return encode_tensor(name, read_values(base, name), read_values(tuned, name), coding)


def _same_bytes(base: Weights, tuned: Weights, name: str) -> bool:
    same_type = base.dtype(name) == tuned.dtype(name)
    return same_type and same_values(stored_bytes(base, name), stored_bytes(tuned, name))


def weight_names(base: Weights, tuned: Weights) -> list[str]:
    """Returns the tensors to compare, sorted.

    Raises:
        InputError: a tensor is in only one of the models, or its shapes differ.
    """
    tied = is_tied(base)
    if tied and HEAD in tuned.tensors and not head_is_copy(tuned.tensors):
        where = f"{tuned.source}: tensor {HEAD!r}"
        raise InputError(
            f"{where}: expected the tied embedding, as in the base, got other values",
            code="delta.tied",
        )
    base_names, tuned_names = own_tensors(base, tied=tied), own_tensors(tuned, tied=tied)
    base_names = {
        name for name in base_names if name in tuned_names or not name.endswith(CONSTANTS)
    }
    for name in sorted(base_names ^ tuned_names):
        only, other = (base, tuned) if name in base_names else (tuned, base)
        raise InputError(
            f"tensor {name!r} is in {only.source} but not in {other.source}",
            code="delta.no_such_tensor",
        )
    for name in sorted(base_names):
        if base.shape(name) != tuned.shape(name):
            expected, got = list(base.shape(name)), list(tuned.shape(name))
            where = f"{tuned.source}: tensor {name!r}"
            raise InputError(
                f"{where}: expected shape {expected} as in the base, got {got}",
                code="delta.other_shape",
            )
    return sorted(name for name in base_names if 0 not in base.shape(name))
