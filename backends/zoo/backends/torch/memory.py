"""Peak memory of this process and of the accelerator."""

import torch

from zoo.backends.base import MemoryInfo
from zoo.backends.machine.host_memory import peak_host_bytes


def peak() -> MemoryInfo:
    """Returns the peaks so far, in bytes."""
    device = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return MemoryInfo(peak_host_bytes=peak_host_bytes(), peak_device_bytes=device)
