"""Operating system, processor, memory, free disk space without paths, and the core's kernels."""

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from zoo.backends.libraries.torch_package import nvidia_there
from zoo.backends.machine.threads import available_cores
from zoo.gym.paths import folders
from zoo.models import cache_folder

CPUINFO = Path("/proc/cpuinfo")
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Machine:
    """The machine as a bug report needs it; nothing in it identifies its owner.

    Attributes:
        system: name and version of the operating system.
        architecture: `x86_64`, `arm64` ...
        python: version of the interpreter.
        processor: its name, or `unknown`.
        cores: the number that this process may use.
        memory_bytes: the total memory.
        available_bytes: the memory that programs can still allocate.
        gpu: there is an NVIDIA GPU, whether torch can use it or not.
        driver: the version of its driver; None if that is not known.
    """

    system: str
    architecture: str
    python: str
    processor: str
    cores: int
    memory_bytes: int
    available_bytes: int
    gpu: bool
    driver: str | None = None


def machine() -> Machine:
    """Returns the current state of the machine."""
    import psutil

    memory = psutil.virtual_memory()
    return Machine(
        system=_system(),
        architecture=platform.machine(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        processor=processor(),
        cores=available_cores(),
        memory_bytes=int(memory.total),
        available_bytes=int(memory.available),
        gpu=nvidia_there(),
        driver=driver_version(DRIVER),
    )


def driver_version(file: Path) -> str | None:
    """Returns the version in NVIDIA's file on its driver, None if there is none."""
    try:
        match = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return match and match[1]


def processor() -> str:
    """Returns the processor's name according to the system."""
    if sys.platform == "linux":
        return cpuinfo_name(CPUINFO) or "unknown"
    if sys.platform == "darwin":
        return _mac_processor() or platform.processor() or "unknown"
    return platform.processor() or "unknown"


def cpuinfo_name(file: Path) -> str | None:
    """Returns the first model name in a file like /proc/cpuinfo, None if there is none."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    named = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in named if key.strip() == "model name"), None)


def _mac_processor() -> str:
    argv = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _system() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    name, libc = f"{platform.system()} {platform.release()}", " ".join(platform.libc_ver())
    return f"{name}, {libc}" if libc.strip() else name


@dataclass(frozen=True)
class Place:
    """A folder by its role, and the free bytes of its disk; None if unknown."""

    role: str
    free_bytes: int | None


def places() -> tuple[Place, ...]:
    """Returns the places for runs and deltas, and for models."""
    named = (("state folder", folders().data), ("model cache", cache_folder()))
    return tuple(Place(role, free_bytes(path)) for role, path in named)


def free_bytes(path: Path) -> int | None:
    """Returns the free bytes of the disk that a folder is on, or would be on."""
    path = path.absolute()
    try:
        existing = next(folder for folder in (path, *path.parents) if folder.exists())
        return shutil.disk_usage(existing).free
    except OSError:
        return None


@dataclass(frozen=True)
class Kernels:
    """The kernels of the core.

    Attributes:
        version: of the core.
        chosen: the instruction set in use.
        available: all that this processor supports, fastest first; all give the same bytes.
    """

    version: str
    chosen: str
    available: tuple[str, ...]


def kernels() -> Kernels:
    """Queries the core."""
    from zoo.core import __version__, available_isas

    isas = available_isas()
    return Kernels(version=__version__, chosen=isas[0], available=isas)
