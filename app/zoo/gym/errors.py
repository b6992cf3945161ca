"""The errors and warnings of zoo-gym, and the exit code of each."""

from collections.abc import Generator
from contextlib import contextmanager

from zoo.core.errors import (
    DoesNotFitError,
    GuardError,
    GymError,
    GymWarning,
    InputError,
    InterruptedRunError,
    NotAvailableError,
    StorageError,
)

__all__ = [
    "EXIT_CODES",
    "EXIT_CTRL_C",
    "DoesNotFitError",
    "GuardError",
    "GymError",
    "GymWarning",
    "InputError",
    "InterruptedRunError",
    "NotAvailableError",
    "StorageError",
    "exit_code",
    "within",
]

EXIT_CODES: dict[type[GymError], int] = {
    GymError: 1,
    GuardError: 1,
    StorageError: 1,
    InputError: 2,
    DoesNotFitError: 3,
    NotAvailableError: 4,
    InterruptedRunError: 5,
}
"""Exit code by class: 0 is success."""

EXIT_CTRL_C = 130
"""Exit code of Ctrl-C before a run exists."""


def exit_code(error: GymError) -> int:
    """Returns the exit code of the nearest base class of `error` that has one."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


@contextmanager
def within(where: str) -> Generator[None]:
    """Prepends where it is to the message of an error of the input that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint, code=error.code) from error
