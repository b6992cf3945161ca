"""Checks arrays before they are passed to Rust: their type, shape and memory.

NumPy arrays, torch tensors on the CPU and MLX arrays are borrowed without a copy. Float16 and
bfloat16 are passed as unsigned 16-bit integers. A wrong type is a `TypeError` and unusable memory a
`ValueError`: both are errors in the calling code. Mismatching shapes may come from a file, so
they are an `InputError`. Neither torch nor MLX is imported here: a caller with one of their arrays
has already imported it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray

DType: TypeAlias = Literal["f32", "f16", "bf16"]
"""The type of weights; NumPy has no bfloat16, so it is passed as `uint16`."""

Array: TypeAlias = Any
"""`numpy.ndarray`, `torch.Tensor` on the CPU or `mlx.core.array`."""

_NUMPY_NAMES: dict[str, str] = {"f32": "float32", "f16": "float16", "bf16": "uint16"}
_SHORT_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def as_numpy(name: str, array: Array, *, writable: bool = False) -> tuple[NDArray[Any], str]:
    """Returns the same memory as a NumPy array, and the name of its type.

    Args:
        name: how the caller knows it.
        array: a NumPy array, a torch tensor on the CPU (without its gradient) or an MLX array,
            which is evaluated.
        writable: whether it will be written to. MLX arrays are immutable, so they are refused.

    Returns:
        The array, with bfloat16 as uint16, and the name of its type in NumPy, or `bfloat16`.

    Raises:
        TypeError: none of the three.
        ValueError: memory that is not on the CPU, not contiguous, or not writable.
    """
    import numpy as np

    if isinstance(array, np.ndarray):
        bfloat16 = array.dtype.name == "bfloat16"  # from the package ml_dtypes
        return (array.view(np.uint16) if bfloat16 else array), array.dtype.name
    for library, kind, view in (("torch", "Tensor", _view_torch), ("mlx.core", "array", _view_mlx)):
        module = sys.modules.get(library)
        if module is not None and isinstance(array, getattr(module, kind)):
            return view(name, array, writable)
    raise TypeError(
        f"{name} is not an array: expected numpy.ndarray, torch.Tensor or mlx.core.array, "
        f"got {type(array).__name__}"
    )


def _view_torch(name: str, tensor: Array, writable: bool) -> tuple[NDArray[Any], str]:
    import numpy as np

    torch = sys.modules["torch"]
    place = tensor.device.type if tensor.layout == torch.strided else str(tensor.layout)
    if place != "cpu" or tensor.is_neg() or tensor.is_conj():
        got = "a lazy view" if place == "cpu" else f"one on {place!r}"
        raise ValueError(f"{name} cannot be borrowed: expected a dense CPU tensor, got {got}")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype != "bfloat16":
        return tensor.detach().numpy(), dtype
    return tensor.detach().view(torch.int16).numpy().view(np.uint16), dtype


def _view_mlx(name: str, array: Array, writable: bool) -> tuple[NDArray[Any], str]:
    import numpy as np

    if writable:
        raise ValueError(
            f"{name} cannot be written: expected a NumPy array or a torch tensor, "
            "got an MLX array, which is immutable"
        )
    dtype = str(array.dtype).removeprefix("mlx.core.")
    memory = memoryview(array)
    if dtype != "bfloat16":
        return np.asarray(memory), dtype
    if not memory.c_contiguous:
        raise ValueError(f"{name} cannot be borrowed: expected contiguous memory, got strides")
    words = np.frombuffer(memory.cast("B"), np.uint16)
    return words.reshape(tuple(array.shape)), dtype


def borrow(
    name: str, array: Array, dtype: str, *, ndim: int = 2, writable: bool = False
) -> NDArray[Any]:
    """Returns an array's memory as a NumPy array after checking its type and dimensions.

    Args:
        name: how the caller knows it.
        array: a NumPy array, a torch tensor on the CPU or an MLX array.
        dtype: the required NumPy type; `uint16` also means bfloat16.
        ndim: the required number of dimensions.
        writable: whether it will be written to.

    Raises:
        TypeError: not an array of this type.
        InputError: another number of dimensions.
        ValueError: memory that cannot be borrowed or written.
    """
    import numpy as np

    # the name of a type takes longer to make than a small product
    fits = isinstance(array, np.ndarray) and array.dtype == dtype
    memory = array if fits else as_numpy(name, array, writable=writable)[0]
    check_array(name, memory, dtype, ndim=ndim, writable=writable)
    return memory


def check_array(
    name: str, array: NDArray[Any], dtype: str, *, ndim: int = 2, writable: bool = False
) -> None:
    """Checks that a NumPy array can be passed without a copy.

    Args:
        name: how the caller knows it.
        array: any array.
        dtype: the required NumPy type, in native byte order.
        ndim: the required number of dimensions.
        writable: whether it will be written to.

    Raises:
        TypeError: not an array of this type.
        InputError: another number of dimensions.
        ValueError: memory with gaps, unaligned or read-only.
    """
    import numpy as np

    if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
        got = type(array).__name__
        raise TypeError(f"{name} is not an array: expected numpy.ndarray, got {got}")
    if array.dtype != np.dtype(dtype):
        raise TypeError(
            f"{name} has the wrong type: expected {dtype}, got {array.dtype} {_shape(array)}"
        )
    if array.ndim != ndim:
        raise InputError(
            f"{name} has the wrong shape: expected {ndim} dimensions, "
            f"got {array.dtype} {_shape(array)}",
            code="core.wrong_shape",
        )
    if not array.flags.c_contiguous or not array.flags.aligned:
        got = "strides" if array.flags.aligned else "unaligned memory"
        raise ValueError(
            f"{name} cannot be borrowed: expected contiguous, aligned memory, got {got}"
        )
    if writable and not array.flags.writeable:
        raise ValueError(
            f"{name} cannot be written: expected a writable array, got a read-only one"
        )


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Checks the shape of an array, which follows from the others.

    Raises:
        InputError: it is different.
    """
    if array.shape != shape:
        raise InputError(
            f"{name} has the wrong shape: expected {shape}, got {array.shape} {array.dtype}",
            code="core.wrong_shape",
        )


def lend(
    name: str, array: Array, dtype: DType | None = None, *, writable: bool = False
) -> tuple[NDArray[Any], DType]:
    """Returns a matrix of weights for the core: its memory and the name of its type.

    Args:
        name: how the caller knows it.
        array: [rows, cols], a NumPy array, a torch tensor on the CPU or an MLX array.
        dtype: the type of its values, by default the array's own; required for uint16 from NumPy.
        writable: whether it will be written to.

    Raises:
        TypeError: not an array of this type, or not one of the three types.
        InputError: not a matrix.
        ValueError: an unknown type, or memory that cannot be borrowed or written.
    """
    if dtype is not None and dtype not in _NUMPY_NAMES:
        known = ", ".join(repr(known) for known in _NUMPY_NAMES)
        raise ValueError(f"unknown dtype of {name}: expected one of {known}, got {dtype!r}")
    memory, own = as_numpy(name, array, writable=writable)
    found = _found_type(name, own, dtype)
    check_array(name, memory, _NUMPY_NAMES[found], writable=writable)
    return (memory.view("uint16") if found == "f16" else memory), found


def _found_type(name: str, own: str, dtype: DType | None) -> DType:
    """Returns the type of the weights; `check_array` refuses other types of a NumPy array."""
    found: Any = _SHORT_NAMES.get(own)
    if dtype is None and found is None:
        hint = "; for uint16 pass the type, such as 'bf16'" if own == "uint16" else ""
        expected = "float32, float16 or bfloat16"
        raise TypeError(f"{name} has the wrong type: expected {expected}, got {own}{hint}")
    if dtype is not None and own == "bfloat16" and dtype != "bf16":
        raise TypeError(f"{name} has the wrong type: expected {_NUMPY_NAMES[dtype]}, got bfloat16")
    return found if dtype is None else dtype


def _shape(array: NDArray[Any]) -> str:
    return f"with shape {array.shape}"


@contextmanager
def located(name: str | None, array: Array) -> Generator[None]:
    """Prepends a tensor's name, type and shape to the messages of errors raised inside.

    Args:
        name: the tensor's name in the checkpoint; None changes nothing.
        array: the tensor.
    """
    try:
        yield
    except InputError as error:
        where = _where(name, array)
        raise InputError(f"{where}{error.message}", hint=error.hint, code=error.code) from error
    except TypeError as error:
        raise TypeError(f"{_where(name, array)}{error}") from error
    except ValueError as error:
        raise ValueError(f"{_where(name, array)}{error}") from error


def _where(name: str | None, array: Array) -> str:
    if name is None:
        return ""
    dtype = str(getattr(array, "dtype", type(array).__name__)).rpartition(".")[2]
    return f"tensor {name!r} ({dtype} {list(getattr(array, 'shape', ()))}): "
