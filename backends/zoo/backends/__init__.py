"""Compute engines: the interface (`base`), and one folder per engine."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.backends.base import Backend, LoadSpec, Recall
    from zoo.core.errors import InputError

# Before torch is imported. A thread that spins while it waits takes the core from the one that it
# waits for: two programs of two threads each on two cores took twelve times as long (docs/log.md).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["load_backend", "refused_settings"]

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
        NotAvailableError: torch is not installed, the machine lacks the device, or the engine
            lacks a method.
    """
    from zoo.backends.base import measure_now
    from zoo.backends.libraries.torch_package import require_torch
    from zoo.backends.machine.detect import detect, require

    require_torch()
    chosen = detect().name if name is None else require(name)
    return engine_class(chosen)(chosen, recall or measure_now)


def refused_settings(
    device: str | None, spec: "LoadSpec", processes: int = 1
) -> "list[InputError]":
    """Returns an error for each setting that the engine of a device does not follow.

    No engine is imported; torch is, if the device matters and none is given.

    Args:
        device: the name of the device; None is the one that `detect` selects.
        spec: how a model is loaded.
        processes: those of the run.
    """
    from zoo.backends.machine.detect import is_mlx, torch_device
    from zoo.backends.mlx import settings as of_mlx
    from zoo.backends.ranks import PARALLEL, one_process_only
    from zoo.backends.torch import settings as of_torch
    from zoo.core.errors import InputError

    if is_mlx(device):
        name = "mlx"
        refusals = [(text, of_mlx.OTHER_ENGINE) for text in of_mlx.refused_settings(spec)]
    else:
        # mps follows the fewest: only if something is refused there, the device matters
        name = device or "mps"
        refusals = of_torch.refused_settings(name, spec)
        if device is None and (refusals or processes > 1):
            name = torch_device()
            refusals = of_torch.refused_settings(name, spec)
    errors = [
        InputError(text, hint=hint, code="backends.setting_not_supported")
        for text, hint in refusals
    ]
    if processes > 1 and name not in PARALLEL:
        errors.append(one_process_only(name, processes))
    return errors


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
            "of the interface in zoo.backends.base",
            code="backends.incomplete_engine",
        )
    return engine
