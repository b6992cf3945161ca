"""The check for Liger's kernels, without importing them."""

from importlib.util import find_spec

from zoo.core.errors import NotAvailableError

LIGER = "liger_kernel"


def require_liger() -> None:
    """Checks that Liger's kernels are installed.

    Raises:
        NotAvailableError: they are not.
    """
    if find_spec(LIGER) is None:
        raise NotAvailableError(
            "enable_liger_kernel: needs the package liger-kernel: expected it, got none",
            hint="pip install liger-kernel",
            code="backends.missing_package",
        )
