"""What the kernels compute with: instruction sets, which all give the same bytes, and threads.

Threads belong to the process that started them: a forked child starts its own. A call with one
thread runs on the calling thread and starts none.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from zoo.core import _core

Isa: TypeAlias = Literal["avx512", "avx2", "neon", "scalar"]
"""`avx512` stands for F, BW, DQ, VL, VBMI, VPOPCNTDQ and VNNI; `scalar` is plain Rust."""


def available_isas() -> tuple[Isa, ...]:
    """Returns those of this machine, fastest first; the first is the default."""
    return cast("tuple[Isa, ...]", tuple(_core.available_isas()))


def use_threads(count: int) -> None:
    """Sets the default number of threads of a call; initially that of the machine.

    Args:
        count: at least 1; more than 256 count as 256.

    Raises:
        ValueError: a count of 0.
    """
    _core.use_threads(count)
