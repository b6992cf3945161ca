"""Where the arithmetic happens: one contract (`base`), one folder for each engine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.base import Backend

__all__ = ["load_backend"]

ENGINES = {
    "cuda": "zoo.backends.torch.backend:TorchBackend",
    "mps": "zoo.backends.torch.backend:TorchBackend",
    "cpu": "zoo.backends.torch.backend:TorchBackend",
}
"""Device name to the class that serves it, imported on demand."""


def load_backend(name: str | None = None) -> "Backend":
    """Returns the backend called `name`, or the one that `detect` picks.

    Raises:
        InputError: no backend has that name.
        NotAvailableError: the machine lacks the device.
    """
    from importlib import import_module

    from zoo.backends.detect import detect, require

    chosen = detect().name if name is None else require(name)
    module, _, attribute = ENGINES[chosen].partition(":")
    backend: Backend = getattr(import_module(module), attribute)(chosen)
    return backend
