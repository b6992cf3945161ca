"""Which extras are installed, and the command that brings each of the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "zoo-gym"

PURPOSES = {
    "mlx": "Apple's array library: the GPU of a Mac, the processor on Linux",
    "qlora": "base weights in 4 bits",
    "cuda": "base weights in 4 bits and faster kernels on NVIDIA cards",
    "serve": "a server with the OpenAI interface",
    "web": "the app in a browser",
    "gguf": "files for llama.cpp",
    "eval": "the field's benchmarks",
    "llamacpp": "running GGUF files; needs a C++ compiler and half an hour",
    "hqq": "another 4-bit form, for NVIDIA cards",
    "environments": "tasks to learn from by trying; needs a C compiler",
}
"""What each extra brings; `all` is most of them together."""

CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
"""Where torch 2.13 with CUDA is, for systems whose usual index has it without."""


@dataclass(frozen=True)
class Missing:
    """Something that is not here.

    Attributes:
        what: its name.
        why: what it would bring, or what is wrong without it.
        command: what brings it.
        packages: the distributions that are not installed, or not in a version that is asked for.
        needed: True where the machine is worse off without it than it has to be.
    """

    what: str
    why: str
    command: str
    packages: tuple[str, ...]
    needed: bool = False


def missing_extras() -> tuple[Missing, ...]:
    """Returns each extra of which something is not installed."""
    found: list[Missing] = []
    for extra, purpose in PURPOSES.items():
        lacking = tuple(sorted(set(lacking_packages(extra))))
        if lacking:
            command = f'{installer()} install "{DISTRIBUTION}[{extra}]"'
            found.append(Missing(extra, purpose, command, lacking))
    return tuple(found)


def missing_torch(*, gpu: bool, cuda_built: bool, device: str) -> tuple[Missing, ...]:
    """Returns what keeps torch from using an NVIDIA card that is there."""
    if not gpu or device == "cuda":
        return ()
    if cuda_built:
        why = "torch has CUDA and sees no card: the driver is too old, or hides it"
        command = "nvidia-smi"
    else:
        why = "an NVIDIA card is there, and this torch was built without CUDA"
        command = f"{installer()} install --force-reinstall torch=={_torch()} "
        command += f"--index-url {CUDA_INDEX}"
    return (Missing("torch with CUDA", why, command, ("torch",), needed=True),)


def lacking_packages(extra: str) -> Iterator[str]:
    """Yields what this system should have for an extra and has not."""
    for requirement in _requirements():
        marker = requirement.marker
        if (
            marker is None
            or marker.evaluate({"extra": ""})
            or not marker.evaluate({"extra": extra})
        ):
            continue
        if requirement.name == DISTRIBUTION:
            for inner in requirement.extras:
                yield from lacking_packages(inner)
        elif not _installed(requirement):
            yield requirement.name


def installer() -> str:
    """Returns the program that installs into this environment."""
    return "pip" if find_spec("pip") else "uv pip"


def _requirements() -> "list[Requirement]":
    from packaging.requirements import Requirement

    return [Requirement(line) for line in requires(DISTRIBUTION) or []]


def _installed(requirement: "Requirement") -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _torch() -> str:
    return version("torch").partition("+")[0]
