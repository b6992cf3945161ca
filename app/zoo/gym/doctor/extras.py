"""Checks which extras are installed, and gives the command that installs each of the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zoo.backends.libraries.torch_package import CUDA_INDEX, torch_command
from zoo.backends.machine.installing import install_command, installer, requirements_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PURPOSES: dict[str, str] = {
    "cluster": "computes community rounds on a cluster of Ray: `round aggregate --ray`",
    "environments": "makes and scores tasks of reasoning-gym, for rewards",
    "eval": "compares answers as mathematics, for rewards",
    "gguf": "writes GGUF files in K types, such as Q4_K_M: `export`",
    "keyring": "reads API keys from the system's keyring, beside the environment",
    "llamacpp": "answers from GGUF files with llama.cpp: `chat`, `serve`, lessons, judges",
    "merge": "merges models by mergekit: `merge`",
    "mlx": "trains on Apple GPUs through MLX; elsewhere for tests, on the CPU",
    "onnx": "writes ONNX files, and runs them to check: `export`",
    "parquet": "reads data in parquet files",
    "rounds": "keeps community rounds in S3",
    "serve": "serves models, and community rounds to others: `serve`, `round serve`",
    "qlora": "trains an adapter on a base in 4 or 8 bits",
    "track": "sends the figures of a run to TensorBoard or W&B: `report_to`",
    "tune": "searches settings of training by Optuna: `tune`",
    "web": "shows the app in a browser of this machine: `webui`",
}
"""What each extra adds, in words; an extra comes with the code that imports it."""


@dataclass(frozen=True)
class Missing:
    """Something that is not installed.

    Attributes:
        what: its name.
        why: what it would add, or what is wrong without it.
        command: the command that installs it.
        packages: the distributions that are missing or have the wrong version.
        needed: True if this machine trains worse without it.
    """

    what: str
    why: str
    command: str
    packages: tuple[str, ...]
    needed: bool = False


def missing_extras() -> tuple[Missing, ...]:
    """Returns each extra that is not completely installed."""
    missing: list[Missing] = []
    for extra, purpose in PURPOSES.items():
        lacking = tuple(sorted(set(lacking_packages(extra))))
        if lacking:
            missing.append(Missing(extra, purpose, install_command(extra), lacking))
    return tuple(missing)


def missing_torch(*, gpu: bool, cuda_built: bool, device: str) -> tuple[Missing, ...]:
    """Returns what prevents torch from training, or from using an installed NVIDIA GPU."""
    if find_spec("torch") is None:
        why = "trains and answers; without it the app opens and data can be inspected"
        return (Missing("torch", why, torch_command(), ("torch",), needed=True),)
    if not gpu or device == "cuda":
        return ()
    if cuda_built:
        why = "torch has CUDA but finds no GPU: the driver is too old, or hides it"
        command = "nvidia-smi"
    else:
        why = "there is an NVIDIA GPU, but this torch was built without CUDA"
        command = f"{installer()} install --force-reinstall torch=={_torch()} "
        command += f"--index-url {CUDA_INDEX}"
    return (Missing("torch with CUDA", why, command, ("torch",), needed=True),)


def lacking_packages(extra: str) -> Iterator[str]:
    """Yields the packages of an extra that are missing on this system."""
    for requirement in requirements_of(extra):
        if not _installed(requirement):
            yield requirement.name


def _installed(requirement: "Requirement") -> bool:
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _torch() -> str:
    return version("torch").partition("+")[0]
