"""The instruction sets of the kernel benchmarks: those of the machine, or of a lesser processor.

Kernel benchmarks have a result file for each kind of processor, named after its widest instruction
set if that is not AVX-512. To measure a lesser one: `python -m bench product --isa avx2`.
"""

import os
from typing import cast

from zoo.core import available_isas
from zoo.core.isa import Isa

VARIABLE = "ZOO_BENCH_ISA"
LESSER = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL",
}
"""Environment variables that disable AVX-512 in torch and NumPy, read at import."""


def isas() -> tuple[Isa, ...]:
    """Returns the instruction sets to measure, the widest first."""
    found = available_isas()
    widest = cast("Isa", os.environ.get(VARIABLE, found[0]))
    if widest not in found:
        raise ValueError(f"no such instruction set here: expected one of {found}, got {widest!r}")
    return found[found.index(widest) :]


def kept_as(bench: str) -> str:
    """Returns the name of a bench's result file."""
    widest = isas()[0]
    return bench if widest == "avx512" else f"{bench}-{widest}"
