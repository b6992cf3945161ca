"""Selects the device to compute on: CUDA, else MPS, else the CPU."""

from dataclasses import dataclass

from zoo.core.errors import InputError, NotAvailableError

ORDER = ("cuda", "mps", "cpu")


@dataclass(frozen=True)
class Detection:
    """The chosen device with the reason, and the other devices with the reasons against them."""

    name: str
    reason: str
    others: tuple[tuple[str, str], ...]


def probe(name: str) -> tuple[bool, str]:
    """Returns whether a device works on this machine, and the reason."""
    import torch

    if name == "cuda":
        if torch.cuda.is_available():
            return True, f"{torch.cuda.get_device_name()} with CUDA {torch.version.cuda}"
        return (
            False,
            "no CUDA device found" if built_for_cuda() else "this torch was built without CUDA",
        )
    if name == "mps":
        if torch.backends.mps.is_available():
            return True, "Apple GPU through Metal"
        return False, "no Apple GPU found"
    threads = torch.get_num_threads()
    return True, f"{threads} thread{'' if threads == 1 else 's'}, always there"


def built_for_cuda() -> bool:
    """Returns whether the installed torch supports CUDA."""
    import torch

    return torch.version.cuda is not None


def detect() -> Detection:
    """Selects the first device of `ORDER` that works."""
    answers = {name: probe(name) for name in ORDER}
    chosen = next(name for name in ORDER if answers[name][0])
    others = tuple(
        (name, f"works, but {chosen} comes first" if works else why)
        for name, (works, why) in answers.items()
        if name != chosen
    )
    return Detection(chosen, answers[chosen][1], others)


def device_key(name: str) -> str:
    """Returns a key that is unique per device of this machine: the name, for CUDA with the id."""
    if name != "cuda":
        return name
    import torch

    return f"cuda-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"


def require(name: str) -> str:
    """Returns `name` if this machine has that device.

    Raises:
        InputError: no device has that name.
        NotAvailableError: the machine lacks it.
    """
    if name not in ORDER:
        raise InputError(f"backend: expected one of {', '.join(ORDER)}, got {name!r}")
    works, why = probe(name)
    if not works:
        raise NotAvailableError(f"backend {name!r} is not available: {why}")
    return name
