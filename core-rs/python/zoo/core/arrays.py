"""What an array must be before it crosses into Rust: its type, its shape, its memory.

Float16 and bfloat16 cross as unsigned 16-bit integers. A wrong type is a `TypeError` and unusable
memory a `ValueError`: both are mistakes in the calling code. Shapes that disagree may come from a
file, so they are an `InputError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.core.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DType: TypeAlias = Literal["f32", "f16", "bf16"]
"""The type of weights; NumPy has no bfloat16, so those travel as `uint16`."""

_NUMPY_NAMES: dict[str, str] = {"f32": "float32", "f16": "float16", "bf16": "uint16"}


def check_array(
    name: str, array: NDArray[Any], dtype: str, *, ndim: int = 2, writable: bool = False
) -> None:
    """Checks that an array can cross without a copy.

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
        raise TypeError(f"{name} has the wrong type: expected {dtype}, got {array.dtype}")
    if array.ndim != ndim:
        raise InputError(
            f"{name} has the wrong shape: expected {ndim} dimensions, got {array.shape}"
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
        raise InputError(f"{name} has the wrong shape: expected {shape}, got {array.shape}")


def lend(
    name: str, array: NDArray[Any], dtype: DType, *, writable: bool = False
) -> tuple[NDArray[Any], str]:
    """Returns a matrix of weights as the core takes it: its memory and the name of its type.

    Raises:
        TypeError: not an array of this type.
        InputError: no matrix.
        ValueError: an unknown type, or memory with gaps, unaligned or read-only.
    """
    if dtype not in _NUMPY_NAMES:
        known = ", ".join(repr(known) for known in _NUMPY_NAMES)
        raise ValueError(f"unknown dtype of {name}: expected one of {known}, got {dtype!r}")
    check_array(name, array, _NUMPY_NAMES[dtype], writable=writable)
    return (array.view("uint16") if dtype == "f16" else array), dtype
