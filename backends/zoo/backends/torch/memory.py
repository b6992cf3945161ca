"""Peak memory of this process and of the accelerator."""

import sys

import torch

from zoo.backends.base import MemoryInfo


def peak() -> MemoryInfo:
    """Returns the peaks so far, in bytes."""
    device = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return MemoryInfo(peak_host_bytes=peak_host_bytes(), peak_device_bytes=device)


def peak_host_bytes() -> int:
    """Returns the largest resident size of this process."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    return peak if sys.platform == "darwin" else peak * 1024
