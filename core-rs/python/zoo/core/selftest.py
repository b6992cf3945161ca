"""Runs every instruction set of this machine against `scalar` on small, odd-shaped inputs.

A kernel takes part through one function that runs it and yields what came out, registered in
`CHECKS`; its inputs are seeded, so that every run is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.core.isa import Isa, available_isas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Check: TypeAlias = Callable[[Isa], Iterator[tuple[str, NDArray[Any]]]]


@dataclass(frozen=True)
class Verdict:
    """What one instruction set gave.

    Attributes:
        isa: the instruction set.
        checked: how many results were compared.
        difference: the first difference from `scalar`, in words; empty where there is none.
    """

    isa: Isa
    checked: int
    difference: str = ""

    @property
    def ok(self) -> bool:
        """Whether every result had the bytes of `scalar`."""
        return not self.difference


def check_signs(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields packed, unpacked and applied signs of every scale and of all types of weights."""
    import numpy as np

    from zoo.core.signs import apply_signs, pack_signs, unpack_signs

    random = np.random.default_rng(0)
    base, tuned = random.standard_normal((2, 3, 4137)).astype(np.float32)
    base[:, ::5] = tuned[:, ::5]
    for dtype in ("f32", "f16", "bf16"):
        stored, other = (_stored(matrix, dtype) for matrix in (base, tuned))
        for scale in ("row", "matrix", "column", "group"):
            options: Any = {"scale": scale, "isa": isa}
            types: Any = {"base_dtype": dtype, "tuned_dtype": dtype}
            bits, scales, mask = pack_signs(stored, other, zeros="mask", **options, **types)
            applied = stored.copy()
            apply_signs(applied, bits, scales, mask=mask, dtype=types["base_dtype"], **options)
            parts: dict[str, NDArray[Any]] = {
                "bits": bits,
                "scales": scales,
                "mask": mask,
                "applied": applied,
            }
            parts["signs"] = unpack_signs(bits, base.shape[1], mask=mask, isa=isa)
            for part, array in parts.items():
                yield f"signs: {part} of {dtype}, scale {scale!r}", array


def _stored(matrix: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Returns a float32 matrix as another type; bfloat16 is cut, as uint16."""
    import numpy as np

    if dtype == "bf16":
        return (matrix.view(np.uint32) >> 16).astype(np.uint16)
    return matrix.astype({"f32": np.float32, "f16": np.float16}[dtype])


CHECKS: dict[str, Check] = {"signs": check_signs}
"""Kernel to the function that yields its results, each with a name."""


def self_test(
    isas: tuple[Isa, ...] | None = None, *, checks: Mapping[str, Check] | None = None
) -> tuple[Verdict, ...]:
    """Returns for each instruction set whether it gives the bytes of `scalar`.

    Args:
        isas: which to run, by default all that this machine has.
        checks: which kernels, by default all of `CHECKS`.
    """
    chosen = CHECKS if checks is None else checks
    return tuple(_compare(isa, chosen) for isa in isas or available_isas())


def _compare(isa: Isa, checks: Mapping[str, Check]) -> Verdict:
    checked = 0
    for check in checks.values():
        for (what, expected), (_, got) in zip(check("scalar"), check(isa), strict=True):
            if expected.tobytes() != got.tobytes():
                return Verdict(isa, checked, _difference(what, expected, got))
            checked += 1
    return Verdict(isa, checked)


def _difference(what: str, expected: NDArray[Any], got: NDArray[Any]) -> str:
    """Returns the first place where two arrays differ, as a sentence."""
    import numpy as np

    if expected.shape != got.shape or expected.dtype != got.dtype:
        sides = (f"{array.dtype} {array.shape}" for array in (expected, got))
        return "{}: expected {}, got {}".format(what, *sides)
    width = (*expected.shape, expected.dtype.itemsize)
    same = expected.view(np.uint8).reshape(width) == got.view(np.uint8).reshape(width)
    place = tuple(int(at[0]) for at in np.nonzero(~same.all(axis=-1)))
    return f"{what} at {place}: expected {expected[place]}, got {got[place]}"
