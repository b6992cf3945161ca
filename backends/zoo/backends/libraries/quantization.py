"""Checks for the library that quantises a base, without importing it."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from zoo.core.errors import NotAvailableError

BITSANDBYTES = "bitsandbytes"
LEAST_VERSION = (0, 48)
"""Earlier versions have no 8-bit weights on a CPU."""


def require_bitsandbytes(purpose: str = "quantization_bit: a base in few bits") -> None:
    """Checks that bitsandbytes is installed.

    Args:
        purpose: the setting and what it needs the package for.

    Raises:
        NotAvailableError: it is not, or it is too old.
    """
    found = _version() if find_spec(BITSANDBYTES) is not None else "none"
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if parts < LEAST_VERSION:
        wanted = ".".join(map(str, LEAST_VERSION))
        raise NotAvailableError(
            f"{purpose} needs the package bitsandbytes: expected version {wanted} or newer, "
            f"got {found}",
            hint='pip install "zoo-gym[qlora]"',
        )


def _version() -> str:
    try:
        return version(BITSANDBYTES)
    except PackageNotFoundError:
        return "none"
