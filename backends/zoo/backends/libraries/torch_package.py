"""The package torch, without which nothing trains: its absence, and how this machine gets it."""

import os
import platform
import re
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

from zoo.backends.machine.installing import DISTRIBUTION, install_command, installer
from zoo.core.errors import NotAvailableError

CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
"""The index of torch 2.13 with CUDA, for systems where PyPI has it without."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""The index of torch without CUDA, for systems where PyPI has it with 4 GB of CUDA's libraries."""


def require_torch() -> None:
    """Checks that torch is installed.

    Raises:
        NotAvailableError: it is not; the hint installs it for this machine.
    """
    if find_spec("torch") is None:
        raise NotAvailableError(
            "training and chat need the package torch, which is not installed",
            hint="; then ".join(commands_for_this_machine()),
            code="backends.missing_package",
        )


def commands_for_this_machine() -> tuple[str, ...]:
    """Returns the commands that install torch, and the extra for this machine's GPU."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return torch_command(), install_command("mlx")
    return (torch_command(), install_command("qlora")) if nvidia_there() else (torch_command(),)


def torch_command() -> str:
    """Returns the command that installs torch: with CUDA where there is an NVIDIA GPU."""
    names = (re.match(r"torch\b[^;\s]*", text) for text in requires(DISTRIBUTION) or [])
    wanted = next(name[0] for name in names if name)
    index = {("win32", True): CUDA_INDEX, ("linux", False): CPU_INDEX}.get(
        (sys.platform, nvidia_there())
    )
    return f"{installer()} install {wanted}" + (f" --index-url {index}" if index else "")


def nvidia_there() -> bool:
    """Returns whether the system has an NVIDIA driver, without loading its library."""
    if sys.platform == "win32":
        return (Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32/nvcuda.dll").exists()
    return Path("/proc/driver/nvidia/version").exists()
