"""Tensors that a Python program has in memory, of torch or of NumPy, as arrays and back.

Nothing here imports an engine: a caller with a tensor of torch has imported it.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.gym.delta.codecs.values import Values
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zoo.core import DType

Array: TypeAlias = Any
"""A tensor of torch or an array of NumPy; what comes out is of the same kind."""

_TYPES: "dict[str, DType]" = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def values_of(what: str, tensor: Array, where: str) -> Values:
    """Returns a tensor of weights with its stored type.

    Args:
        what: the argument's name.
        tensor: of torch, on any device, or of NumPy.
        where: the tensor's name; both are in messages.

    Raises:
        InputError: it is no tensor, or not of float32, float16 or bfloat16.
    """
    import numpy as np

    from zoo.core.arrays import as_numpy

    try:
        array, dtype = as_numpy(what, _on_cpu(tensor))
    except TypeError:
        raise _no_tensor(what, tensor, where) from None
    if dtype not in _TYPES:
        raise InputError(
            f"{where}: {what}: expected float32, float16 or bfloat16, got {dtype}",
            code="published.bad_tensor",
        )
    return Values(np.ascontiguousarray(array), _TYPES[dtype], what)


def array_of(what: str, tensor: Array, where: str) -> "NDArray[Any]":
    """Returns a tensor of any type as an array.

    Raises:
        InputError: it is no tensor.
    """
    from zoo.core.arrays import as_numpy

    try:
        return as_numpy(what, _on_cpu(tensor))[0]
    except TypeError:
        raise _no_tensor(what, tensor, where) from None


def _no_tensor(what: str, tensor: object, where: str) -> InputError:
    return InputError(
        f"{where}: {what}: expected a tensor of torch or an array of NumPy, got a value of type "
        f"{type(tensor).__name__}",
        code="published.bad_tensor",
    )


def _is_torch(tensor: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _on_cpu(tensor: Array) -> Array:
    return tensor.detach().cpu().contiguous() if _is_torch(tensor) else tensor


def tensor_like(template: Array, array: "NDArray[Any]") -> Array:
    """Returns an array as the library of another tensor has it, on the same device."""
    if not _is_torch(template):
        return array
    return sys.modules["torch"].from_numpy(array).to(template.device)
