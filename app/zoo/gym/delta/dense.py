"""Signs, ternary digits and small integers: a matrix of differences as few bits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.gym.delta.coding import Dense
from zoo.gym.delta.kinds import SignTerm, plane_names
from zoo.gym.delta.stored import Stored
from zoo.gym.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Parts: TypeAlias = "Mapping[str, NDArray[Any]]"


def code_matrix(base: Stored, tuned: Stored, coding: Dense) -> "tuple[SignTerm, Parts] | None":
    """Codes a matrix's difference; None where there is none.

    Raises:
        InputError: a value is not finite, or too large for a scale.
    """
    return _code_signs(base, tuned, coding)


def _code_signs(base: Stored, tuned: Stored, coding: Dense) -> "tuple[SignTerm, Parts] | None":
    from zoo.core import pack_signs

    if coding.scale not in {"row", "matrix"}:
        raise InputError(f"scale: expected 'row' or 'matrix', got {coding.scale!r}")
    bits, scales = pack_signs(
        base.values,
        tuned.values,
        scale=coding.scale,  # pyright: ignore[reportArgumentType]
        base_dtype=base.dtype,
        tuned_dtype=tuned.dtype,
    )
    if not scales.any():
        return None
    return SignTerm(scale=coding.scale), {"sign": bits, "scale": scales}


def add_signs(term: SignTerm, parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds the planes of a sign term, in their order, to some rows."""
    from zoo.core import apply_signs

    for plane in plane_names(term):
        scales = parts[f"scale{plane}"]
        own = scales[rows] if term.scale in {"row", "group"} else scales
        apply_signs(total, parts[f"sign{plane}"][rows], own)


def add_ternary(parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds a ternary term to some rows."""
    raise InputError("ternary terms cannot be read yet")


def add_ints(term: object, parts: Parts, total: "NDArray[np.float32]", rows: slice) -> None:
    """Adds an int term to some rows."""
    raise InputError("int terms cannot be read yet")
