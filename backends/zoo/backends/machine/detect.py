"""Selects the device to compute on: CUDA or ROCm, else MLX, else MPS, else the CPU.

ROCm is the device `cuda` of a torch that is built for AMD. Intel GPUs (`xpu`) are named, not used.

MLX also runs without an Apple GPU, many times slower than torch. There it is used only by name.
"""

import sys
from dataclasses import dataclass
from importlib.util import find_spec

from zoo.backends.machine.installing import install_command
from zoo.core.errors import InputError, NotAvailableError

ORDER = ("cuda", "mlx", "mps", "xpu", "cpu")

BY_NAME = "used only by name: backend=mlx"
"""Why a device that works is not selected."""


@dataclass(frozen=True)
class Detection:
    """The chosen device with the reason, and the other devices with the reasons against them."""

    name: str
    reason: str
    others: tuple[tuple[str, str], ...]


def probe(name: str) -> tuple[bool, str]:
    """Returns whether a device works on this machine, and the reason."""
    if name == "mlx":
        return _probe_mlx()
    import torch

    gpus = {"cuda": _probe_cuda, "mps": _probe_mps, "xpu": _probe_xpu}
    if name in gpus:
        return gpus[name]()
    threads = torch.get_num_threads()
    return True, f"{threads} thread{'' if threads == 1 else 's'}, always there"


def _probe_cuda() -> tuple[bool, str]:
    import torch

    if torch.cuda.is_available():
        return True, f"{torch.cuda.get_device_name()} with {_platform()}"
    if built_for_cuda() or torch.version.hip is not None:
        return False, f"no {_platform().split()[0]} device found"
    return False, "this torch was built without CUDA or ROCm"


def _probe_mps() -> tuple[bool, str]:
    import torch

    if torch.backends.mps.is_available():
        return True, "Apple GPU through Metal"
    return False, "no Apple GPU found"


def _probe_xpu() -> tuple[bool, str]:
    import torch

    if torch.xpu.is_available():
        return False, "the engine was never tried on an Intel GPU"
    return False, "no Intel GPU found"


def _platform() -> str:
    """Returns what the device `cuda` is with this torch, and its version."""
    import torch

    hip: str | None = torch.version.hip
    return f"ROCm {hip}" if hip is not None else f"CUDA {torch.version.cuda}"


def _probe_mlx() -> tuple[bool, str]:
    """Returns whether MLX and mlx-lm are installed, and what MLX computes on."""
    if sys.platform == "win32":
        return False, "MLX does not run on Windows"
    missing = [name for name in ("mlx", "mlx_lm") if find_spec(name) is None]
    if missing:
        name = missing[0].replace("_", "-")
        return False, f"{name} is not installed: {install_command('mlx')}, for Apple GPUs"
    import mlx.core as mx

    if has_apple_gpu():
        return True, f"Apple GPU through MLX {mx.__version__}"
    return True, f"MLX {mx.__version__} on the CPU, many times slower than torch"


def has_apple_gpu() -> bool:
    """Returns whether the installed MLX computes on an Apple GPU."""
    import mlx.core as mx

    available: bool = mx.metal.is_available()
    return available


def torch_device() -> str:
    """Returns the first device of `ORDER` that works with torch."""
    return next(name for name in ORDER if name != "mlx" and probe(name)[0])


def is_mlx(name: str | None) -> bool:
    """Returns whether a device is MLX, without an import of torch.

    Args:
        name: a device; None is the one that `detect` selects.
    """
    if name is not None or sys.platform != "darwin":  # elsewhere it is used only by name
        return name == "mlx"
    return _probe_mlx()[0] and has_apple_gpu()


def built_for_cuda() -> bool:
    """Returns whether the installed torch supports CUDA."""
    import torch

    return torch.version.cuda is not None


def detect() -> Detection:
    """Selects the first device of `ORDER` that works, MLX only with an Apple GPU."""
    answers = {name: probe(name) for name in ORDER}
    working = [name for name in ORDER if answers[name][0]]
    named = ["mlx"] if "mlx" in working and not has_apple_gpu() else []
    chosen = next(name for name in working if name not in named)
    absent = tuple(
        (name, _against(name, chosen, answers[name], named)) for name in ORDER if name != chosen
    )
    return Detection(chosen, answers[chosen][1], absent)


def _against(name: str, chosen: str, answer: tuple[bool, str], named: list[str]) -> str:
    works, why = answer
    if name in named:
        return f"{why}; {BY_NAME}"
    return f"works, but {chosen} comes first" if works else why


def device_key(name: str) -> str:
    """Returns a key that is unique per device of this machine: the name, for CUDA with the id."""
    if name != "cuda":
        return name
    import torch

    return _gpu_key(torch.cuda.current_device())


def device_keys(name: str, processes: int) -> list[str]:
    """Returns the keys of the devices that processes of this machine have, in an order for all.

    On CUDA process i has GPU i; GPUs that are missing have no key. Other devices are shared.
    """
    if name != "cuda" or processes == 1:
        return [device_key(name)]
    import torch

    return sorted(map(_gpu_key, range(min(processes, torch.cuda.device_count()))))


def _gpu_key(number: int) -> str:
    import torch

    return f"cuda-{torch.cuda.get_device_properties(number).uuid}"


def require(name: str) -> str:
    """Returns `name` if this machine has that device.

    Raises:
        InputError: no device has that name.
        NotAvailableError: the machine lacks it.
    """
    if name not in ORDER:
        raise InputError(
            f"backend: expected one of {', '.join(ORDER)}, got {name!r}",
            code="backends.unknown_backend",
        )
    works, why = probe(name)
    if not works:
        raise NotAvailableError(
            f"backend {name!r} is not available: {why}",
            hint="leave backend out for the best device of this machine; zoo-gym doctor names it",
            code="backends.not_available",
        )
    return name


def require_gpus(needed: int) -> None:
    """Checks that each process of this machine has a GPU of its own.

    Raises:
        NotAvailableError: there are fewer.
    """
    import torch

    count = torch.cuda.device_count()
    if count < needed:
        raise NotAvailableError(
            f"num_processes: expected a GPU for each process of this machine, got {count} for "
            f"{needed} processes",
            hint=f"num_processes={max(1, count)}, or backend=cpu",
            code="backends.too_few_gpus",
        )
