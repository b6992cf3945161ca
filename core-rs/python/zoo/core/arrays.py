"""What an array must be before it crosses into Rust: its type, its shape, its memory.

NumPy arrays, torch tensors on the CPU and MLX arrays are lent as they lie, without a copy. Float16
and bfloat16 cross as unsigned 16-bit integers. A wrong type is a `TypeError` and unusable memory a
`ValueError`: both are mistakes in the calling code. Shapes that disagree may come from a file, so
they are an `InputError`. Neither torch nor MLX is imported here: who hands over one of their arrays
has done so.
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
"""The type of weights; NumPy has no bfloat16, so those travel as `uint16`."""

Array: TypeAlias = Any
"""`numpy.ndarray`, `torch.Tensor` on the CPU or `mlx.core.array`."""

_NUMPY_NAMES: dict[str, str] = {"f32": "float32", "f16": "float16", "bf16": "uint16"}
_SHORT_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def as_numpy(name: str, array: Array, *, writable: bool = False) -> tuple[NDArray[Any], str]:
    """Returns the same memory as a NumPy array, and the name of its type.

    Args:
        name: how the caller knows it.
        array: a NumPy array, a torch tensor on the CPU (its gradient is left out) or an MLX array,
            which is evaluated.
        writable: whether it will be written to. MLX arrays never change, so they are refused.

    Returns:
        The array, bfloat16 as uint16, and its type by NumPy's name, or `bfloat16`.

    Raises:
        TypeError: none of the three.
        ValueError: memory that is not the processor's, has gaps, or must not be written.
    """
    import numpy as np

    if isinstance(array, np.ndarray):
        bfloat16 = array.dtype.name == "bfloat16"  # as the package ml_dtypes has it
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
        raise ValueError(f"{name} cannot be lent: expected a dense tensor on the CPU, got {got}")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype != "bfloat16":
        return tensor.detach().numpy(), dtype
    return tensor.detach().view(torch.int16).numpy().view(np.uint16), dtype


def _view_mlx(name: str, array: Array, writable: bool) -> tuple[NDArray[Any], str]:
    import numpy as np

    if writable:
        raise ValueError(
            f"{name} cannot be written: expected a NumPy array or a torch tensor, "
            "got an MLX array, which never changes"
        )
    dtype = str(array.dtype).removeprefix("mlx.core.")
    memory = memoryview(array)
    if dtype != "bfloat16":
        return np.asarray(memory), dtype
    if not memory.c_contiguous:
        raise ValueError(f"{name} cannot be lent: expected contiguous memory, got one with strides")
    words = np.frombuffer(memory.cast("B"), np.uint16)
    return words.reshape(tuple(array.shape)), dtype


def borrow(
    name: str, array: Array, dtype: str, *, ndim: int = 2, writable: bool = False
) -> NDArray[Any]:
    """Returns an array's memory as a NumPy array of the type and dimensions that it must have.

    Args:
        name: how the caller knows it.
        array: a NumPy array, a torch tensor on the CPU or an MLX array.
        dtype: the NumPy type that it must have; `uint16` is bfloat16's, too.
        ndim: the number of dimensions that it must have.
        writable: whether it will be written to.

    Raises:
        TypeError: not an array of this type.
        InputError: another number of dimensions.
        ValueError: memory that cannot be lent or written.
    """
    memory, _ = as_numpy(name, array, writable=writable)
    check_array(name, memory, dtype, ndim=ndim, writable=writable)
    return memory


def check_array(
    name: str, array: NDArray[Any], dtype: str, *, ndim: int = 2, writable: bool = False
) -> None:
    """Checks that a NumPy array can cross without a copy.

    Args:
        name: how the caller knows it.
        array: any array.
        dtype: the NumPy type that it must have, in the machine's byte order.
        ndim: the number of dimensions that it must have.
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
            f"got {array.dtype} {_shape(array)}"
        )
    if not array.flags.c_contiguous or not array.flags.aligned:
        got = "one with strides" if array.flags.aligned else "an unaligned one"
        raise ValueError(f"{name} cannot be lent: expected contiguous, aligned memory, got {got}")
    if writable and not array.flags.writeable:
        raise ValueError(
            f"{name} cannot be written: expected a writable array, got a read-only one"
        )


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Checks that an array has a shape that follows from the others.

    Raises:
        InputError: it has another one.
    """
    if array.shape != shape:
        raise InputError(
            f"{name} has the wrong shape: expected {shape}, got {array.shape} {array.dtype}"
        )


def lend(
    name: str, array: Array, dtype: DType | None = None, *, writable: bool = False
) -> tuple[NDArray[Any], DType]:
    """Returns a matrix of weights as the core takes it: its memory and the name of its type.

    Args:
        name: how the caller knows it.
        array: [rows, cols], a NumPy array, a torch tensor on the CPU or an MLX array.
        dtype: the type of its values; by default the array's own. NumPy's uint16 must be named.
        writable: whether it will be written to.

    Raises:
        TypeError: not an array of this type, or of none of the three types.
        InputError: no matrix.
        ValueError: an unknown type, or memory that cannot be lent or written.
    """
    if dtype is not None and dtype not in _NUMPY_NAMES:
        known = ", ".join(repr(known) for known in _NUMPY_NAMES)
        raise ValueError(f"unknown dtype of {name}: expected one of {known}, got {dtype!r}")
    memory, own = as_numpy(name, array, writable=writable)
    found = _found_type(name, own, dtype)
    check_array(name, memory, _NUMPY_NAMES[found], writable=writable)
    return (memory.view("uint16") if found == "f16" else memory), found


def _found_type(name: str, own: str, dtype: DType | None) -> DType:
    """Returns the weights' type; a NumPy array of another one is left to `check_array`."""
    found: Any = _SHORT_NAMES.get(own)
    if dtype is None and found is None:
        hint = "; name the type of uint16, as 'bf16'" if own == "uint16" else ""
        expected = "float32, float16 or bfloat16"
        raise TypeError(f"{name} has the wrong type: expected {expected}, got {own}{hint}")
    if dtype is not None and own == "bfloat16" and dtype != "bf16":
        raise TypeError(f"{name} has the wrong type: expected {_NUMPY_NAMES[dtype]}, got bfloat16")
    return found if dtype is None else dtype


def _shape(array: NDArray[Any]) -> str:
    return f"with shape {array.shape}"


@contextmanager
def told(name: str | None, array: Array) -> Generator[None]:
    """Puts a tensor's name, type and shape before the message of what is raised inside.

    Args:
        name: the tensor's name, as a checkpoint has it; None changes nothing.
        array: the tensor.
    """
    try:
        yield
    except InputError as error:
        where = _where(name, array)
        raise InputError(f"{where}{error.message}", hint=error.hint) from error
    except TypeError as error:
        raise TypeError(f"{_where(name, array)}{error}") from error
    except ValueError as error:
        raise ValueError(f"{_where(name, array)}{error}") from error


def _where(name: str | None, array: Array) -> str:
    if name is None:
        return ""
    dtype = str(getattr(array, "dtype", type(array).__name__)).rpartition(".")[2]
    return f"tensor {name!r} ({dtype} {list(getattr(array, 'shape', ()))}): "
