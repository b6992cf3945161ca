"""Memory of this process and of the GPU."""

from typing import Any

import mlx.core as mx

from zoo.backends.base import MemoryInfo
from zoo.backends.machine.host_memory import peak_host_bytes


def has_gpu() -> bool:
    """Returns whether MLX computes on an Apple GPU."""
    available: bool = mx.metal.is_available()
    return available


def peak() -> MemoryInfo:
    """Returns the peaks so far, in bytes; the GPU's is Metal's, 0 without one."""
    device = int(mx.get_peak_memory()) if has_gpu() else 0
    return MemoryInfo(peak_host_bytes=peak_host_bytes(), peak_device_bytes=device)


def wire() -> None:
    """Lets the GPU keep as much memory resident as Metal recommends; nothing without a GPU."""
    recommended = _recommended() if has_gpu() else None
    if recommended is not None:
        mx.set_wired_limit(recommended)


def _recommended() -> int | None:
    """Returns the working set that Metal recommends, in bytes."""
    info: dict[str, Any] = mx.device_info()
    recommended = info.get("max_recommended_working_set_size")
    return None if recommended is None else int(recommended)


def free_bytes() -> int:
    """Returns the memory that a model may take.

    A GPU shares the memory of the machine; Metal recommends a working set, part of it used already.
    """
    import psutil

    free = int(psutil.virtual_memory().available)
    if not has_gpu():
        return free
    recommended = _recommended()
    if recommended is None:
        return free
    return max(0, min(free, recommended - int(mx.get_active_memory())))
