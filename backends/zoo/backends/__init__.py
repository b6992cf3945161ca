"""Compute engines: the interface (`base`), and one folder per engine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.base import Backend, Recall

__all__ = ["load_backend"]

ENGINES = {
    "cuda": "zoo.backends.torch.backend:TorchBackend",
    "mlx": "zoo.backends.mlx.backend:MlxBackend",
    "mps": "zoo.backends.torch.backend:TorchBackend",
    "cpu": "zoo.backends.torch.backend:TorchBackend",
}
"""Device name -> the class for it, imported on demand."""


def load_backend(name: str | None = None, recall: "Recall | None" = None) -> "Backend":
    """Returns the backend for a device, by default the one that `detect` selects.

    Args:
        name: the name of the device.
        recall: caches measurements of the machine; None measures in each process.

    Raises:
        InputError: no device has that name.
        NotAvailableError: the machine lacks the device, or the engine lacks a method.
    """
    from zoo.backends.base import measure_now
    from zoo.backends.detect import detect, require

    chosen = detect().name if name is None else require(name)
    return engine_class(chosen)(chosen, recall or measure_now)


def engine_class(name: str) -> "type[Backend]":
    """Returns the engine class of a device, after checking that it implements the interface.

    Raises:
        NotAvailableError: methods are missing; the message lists them.
    """
    from importlib import import_module

    from zoo.core.errors import NotAvailableError

    module, _, attribute = ENGINES[name].partition(":")
    engine: type[Backend] = getattr(import_module(module), attribute)
    policy = getattr(engine, "policy", None)
    missing = [f"{engine.__name__}.{method}" for method in sorted(engine.__abstractmethods__)]
    if policy is None:
        missing.append(f"{engine.__name__}.policy")
    else:
        missing += [f"{policy.__name__}.{method}" for method in sorted(policy.__abstractmethods__)]
    if missing:
        raise NotAvailableError(
            f"backend {name!r}: {ENGINES[name]} lacks {', '.join(missing)}: expected every method "
            "of the interface in zoo.backends.base"
        )
    return engine
