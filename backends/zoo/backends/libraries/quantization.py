"""Checks for the library that quantises a base and optimizers' state, without importing it."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from zoo.backends.machine.installing import install_command
from zoo.core.errors import NotAvailableError

BITSANDBYTES = "bitsandbytes"
LEAST_VERSION = (0, 48)
"""Earlier versions have no 8-bit weights on a CPU."""

DEVICES = ("cuda",)
"""Where its optimizers step."""

INSTEAD = (
    "optim=lion or adafactor keep less than adamw on any device; so do apollo_mini and badam with "
    "finetuning_type=full"
)


def require_bitsandbytes(purpose: str = "quantization_bit: a base in few bits") -> None:
    """Checks that bitsandbytes is installed.

    Args:
        purpose: the setting and what it needs the package for.

    Raises:
        NotAvailableError: it is not, or it is too old.
    """
    version = _version() if find_spec(BITSANDBYTES) is not None else "none"
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise NotAvailableError(
            f"{purpose} needs the package bitsandbytes: expected version {least} or newer, "
            f"got {version}",
            hint=install_command("qlora"),
            code="backends.missing_package",
        )


def check_device(name: str, device: str) -> None:
    """Checks that the library steps on a device.

    Raises:
        NotAvailableError: it does not, or steps without what the name promises.
    """
    if device not in DEVICES:
        raise NotAvailableError(
            f"optim: {name} steps on a CUDA device: expected cuda, got {device}",
            hint=INSTEAD,
            code="backends.needs_cuda",
        )


def _version() -> str:
    try:
        return version(BITSANDBYTES)
    except PackageNotFoundError:
        return "none"
