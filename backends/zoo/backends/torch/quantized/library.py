"""Imports bitsandbytes without its side effects.

Its import compiles functions with torch.compile, which loads torch's compiler: 2 CPU seconds and 40
MB for nothing, and a C++ compiler at run time. On processors with bf16 units it also downloads a
kernel from the hub if the package `kernels` is installed. peft imports it whenever it is there, so
`import_bitsandbytes` comes before each import of peft.
"""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from zoo.backends.libraries.quantization import BITSANDBYTES, require_bitsandbytes

DOWNLOADS = "kernels"
"""The package that bitsandbytes downloads with."""


@cache
def import_bitsandbytes() -> ModuleType | None:
    """Returns bitsandbytes, or None if it is not installed."""
    if find_spec(BITSANDBYTES) is None:
        return None
    with _without_compiler(), _without(DOWNLOADS), _silent(BITSANDBYTES):
        import bitsandbytes  # pyright: ignore[reportMissingImports]

    module: ModuleType = bitsandbytes
    return module


def require_library(purpose: str = "quantization_bit: a base in few bits") -> Any:  # noqa: ANN401
    """Returns the library, which has no types.

    Args:
        purpose: see `require_bitsandbytes`.

    Raises:
        NotAvailableError: it is not installed, or too old.
    """
    require_bitsandbytes(purpose)
    return import_bitsandbytes()


@contextmanager
def _without_compiler() -> Generator[None]:
    """Makes torch.compile return its function as it is."""
    original = torch.compile

    def plain(function: object = None, **_options: object) -> object:
        return plain if function is None else function

    torch.compile = plain  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = original


@contextmanager
def _without(package: str) -> Generator[None]:
    """Lets imports of a package fail."""
    absent = object()
    original: object = sys.modules.get(package, absent)
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
        if isinstance(original, ModuleType):
            sys.modules[package] = original


@contextmanager
def _silent(name: str) -> Generator[None]:
    """Silences the log of a package."""
    log = logging.getLogger(name)
    level, log.disabled = log.level, False
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
