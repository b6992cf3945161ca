"""Compares every instruction set of this machine with `scalar` on small inputs of odd shapes.

Each kernel has one function in `CHECKS` that runs it and yields its results; the inputs are seeded,
so that every run is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.core.isa import Isa, available_isas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from zoo.core.codes import GroupCodec

    Check: TypeAlias = Callable[[Isa], Iterator[tuple[str, NDArray[Any]]]]


@dataclass(frozen=True)
class Verdict:
    """The result of one instruction set.

    Attributes:
        isa: the instruction set.
        checked: the number of compared results.
        difference: the first difference from `scalar`, in words; empty if there is none.
    """

    isa: Isa
    checked: int
    difference: str = ""

    @property
    def ok(self) -> bool:
        """Whether every result has the same bytes as `scalar`."""
        return not self.difference


def check_signs(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields packed, unpacked and applied signs for every scale and type of weights."""
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


def check_groups(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields codes of every kind, weights after adding them, and a product of factors."""
    import numpy as np

    from zoo.core.codes import add_product, apply_groups, pack_groups

    random = np.random.default_rng(1)
    values = random.standard_normal((3, 1093)).astype(np.float32)
    weights = random.standard_normal(values.shape).astype(np.float32)
    kinds: tuple[GroupCodec, ...] = ("sign", "ternary", "int2", "int4", "int8")
    for kind in kinds:
        codes, scales = pack_groups(kind, values, isa=isa)
        yield f"codes: {kind}", codes
        yield f"codes: scales of {kind}", scales
        for dtype in ("f32", "f16", "bf16"):
            applied = _stored(weights, dtype)
            types: Any = {"dtype": dtype}
            apply_groups(kind, applied, codes, scales, isa=isa, **types)
            yield f"codes: {kind} applied to {dtype}", applied
    total = weights.copy()
    add_product(values[:, :1093], random.standard_normal((3, 3)).astype(np.float32), total, isa=isa)
    yield "codes: product of factors", total


def check_product(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields products of tokens with sign bits."""
    import numpy as np

    from zoo.core.product import sign_product

    random = np.random.default_rng(2)
    bits = random.integers(0, 256, (19, 131), np.uint8)
    scales = random.random(19).astype(np.float32)
    for tokens in (1, 3, 17):
        x = random.standard_normal((tokens, 1043)).astype(np.float32)
        yield f"product: {tokens} tokens", sign_product(x, bits, scales, isa=isa)
        rounded = sign_product(x, bits, scales, method="int8", isa=isa)
        yield f"product: {tokens} tokens as int8", rounded


def check_aggregate(isa: Isa) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the results of every aggregator for packed and plain contributions."""
    import numpy as np

    from zoo.core import aggregate

    random = np.random.default_rng(3)
    rows, cols = random.integers(0, 256, (21, 131), np.uint8), 1043
    scales = random.random(21).astype(np.float32)
    plain = random.standard_normal((21, cols)).astype(np.float32)
    yield "aggregate: Hamming distances", aggregate.hamming(rows, cols, isa=isa)
    yield "aggregate: majority", aggregate.majority(rows, cols, isa=isa)
    yield "aggregate: mean", aggregate.sign_mean(rows, cols, scales, isa=isa)
    yield "aggregate: plain trimmed mean", aggregate.trimmed_mean(plain, 4, isa=isa)
    yield "aggregate: plain median", aggregate.median(plain, isa=isa)


def _stored(matrix: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Returns a float32 matrix as another type; bfloat16 is truncated, as uint16."""
    import numpy as np

    if dtype == "bf16":
        return (matrix.view(np.uint32) >> 16).astype(np.uint16)
    return matrix.astype({"f32": np.float32, "f16": np.float16}[dtype])  # a copy in any case


CHECKS: dict[str, Check] = {
    "signs": check_signs,
    "codes": check_groups,
    "product": check_product,
    "aggregate": check_aggregate,
}
"""Name of a kernel -> the function that yields its named results."""


def self_test(
    isas: tuple[Isa, ...] | None = None, *, checks: Mapping[str, Check] | None = None
) -> tuple[Verdict, ...]:
    """Returns for each instruction set whether it gives the same bytes as `scalar`.

    Args:
        isas: the instruction sets, by default all of this machine.
        checks: the kernels, by default all of `CHECKS`.
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
    """Returns a description of the first difference between two arrays."""
    import numpy as np

    if expected.shape != got.shape or expected.dtype != got.dtype:
        sides = (f"{array.dtype} {array.shape}" for array in (expected, got))
        return "{}: expected {}, got {}".format(what, *sides)
    width = (*expected.shape, expected.dtype.itemsize)
    same = expected.view(np.uint8).reshape(width) == got.view(np.uint8).reshape(width)
    place = tuple(int(at[0]) for at in np.nonzero(~same.all(axis=-1)))
    return f"{what} at {place}: expected {expected[place]}, got {got[place]}"
