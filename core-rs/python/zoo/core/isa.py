"""The instruction sets of the kernels: all give the same bytes."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from zoo.core import _core

Isa: TypeAlias = Literal["avx512", "avx2", "neon", "scalar"]
"""`avx512` stands for F, BW, DQ, VL, VBMI, VPOPCNTDQ and VNNI; `scalar` is plain Rust."""


def available_isas() -> tuple[Isa, ...]:
    """Returns those of this machine, fastest first; the first is the default."""
    return cast("tuple[Isa, ...]", tuple(_core.available_isas()))
