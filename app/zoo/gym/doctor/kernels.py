"""The instruction sets that the Rust core finds on this processor, and the one it uses.

Only this module of the doctor queries the core: any other facts about its kernels belong in
`Kernels` and its line in `report.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernels:
    """The kernels of the core.

    Attributes:
        version: of the core.
        chosen: the instruction set in use.
        available: all that this processor supports, fastest first; all give the same bytes.
    """

    version: str
    chosen: str
    available: tuple[str, ...]


def kernels() -> Kernels:
    """Queries the core."""
    from zoo.core import __version__, available_isas

    isas = available_isas()
    return Kernels(version=__version__, chosen=isas[0], available=isas)
