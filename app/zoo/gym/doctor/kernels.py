"""What the Rust core sees of the processor, and the path that it takes there.

This is the one place where the doctor asks the core: whatever else its kernels can tell of
themselves is added to `Kernels`, and to its line in `report.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernels:
    """The core's own view.

    Attributes:
        version: of the core.
        chosen: the instruction set that is used.
        available: every one that this processor has, the fastest first; all give the same bytes.
    """

    version: str
    chosen: str
    available: tuple[str, ...]


def kernels() -> Kernels:
    """Asks the core."""
    from zoo.core import __version__, available_isas

    isas = available_isas()
    return Kernels(version=__version__, chosen=isas[0], available=isas)
