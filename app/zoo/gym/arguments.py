"""Type checks for the arguments of the public Python functions, with clear messages.

Text from the command line is checked where it is read. A caller in Python can pass anything, which
without a check would cause an AttributeError deep inside, or be ignored.
"""

import os
from numbers import Integral, Real
from pathlib import Path
from typing import TypeAlias, TypeVar

from zoo.gym.config.report import shown
from zoo.gym.errors import InputError

StrPath: TypeAlias = str | os.PathLike[str]
"""A path may also be given as text."""

T = TypeVar("T")


def path_of(name: str, value: object) -> Path:
    """Returns an argument as a path.

    Raises:
        InputError: it is neither a path nor text, or no file can have that path.
    """
    from zoo.core.paths import require_possible

    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text:
        raise _other(name, "a path", value)
    require_possible(text)
    return Path(text)


def path_or_none(name: str, value: object) -> Path | None:
    """Returns an argument as a path; None stays None.

    Raises:
        InputError: it is neither None, nor a path, nor text.
    """
    return None if value is None else path_of(name, value)


def model_folder(name: str, value: object) -> Path:
    """Returns an argument as the folder of a model that is on this machine.

    Args:
        name: of the argument.
        value: a path, or the name of a model: `zen-pico`, `org/name`, `org/name@revision`.

    Raises:
        InputError: it is neither a path nor text.
        NotAvailableError: no model of that name is here; nothing is downloaded.
    """
    path = path_of(name, value)
    if not isinstance(value, str) or path.exists():
        return path
    from zoo.models.resolve import is_path, resolve

    return path if is_path(value) else resolve(value, offline=True).folder


def text_of(name: str, value: object) -> str:
    """Returns an argument that is text.

    Raises:
        InputError: it is not one.
    """
    if not isinstance(value, str):
        raise _other(name, "text", value)
    return value


def whole_of(name: str, value: object) -> int:
    """Returns an argument that is a whole number, also one of NumPy; True is not one.

    Raises:
        InputError: it is not one.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _other(name, "a whole number", value)
    return int(value)


def number_of(name: str, value: object) -> float:
    """Returns an argument that is a number, also one of NumPy; True is not one.

    Raises:
        InputError: it is not one.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _other(name, "a number", value)
    return float(value)


def instance_of(name: str, value: object, kind: type[T], *, hint: str | None = None) -> T:
    """Returns an argument that is an instance of a class.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, kind):
        raise _other(name, kind.__name__, value, hint)
    return value


def _other(name: str, expected: str, value: object, hint: str | None = None) -> InputError:
    got = shown(value)
    if not isinstance(value, str | int | float | dict | list | tuple | None):
        got = f"a value of type {type(value).__name__}"
    return InputError(
        f"{name}: expected {expected}, got {got}", hint=hint, code="arguments.wrong_type"
    )
