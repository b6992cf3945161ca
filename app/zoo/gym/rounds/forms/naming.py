"""Adds a tensor's name to what the core says of a contributor."""

from collections.abc import Generator
from contextlib import contextmanager

from zoo.gym.errors import InputError


@contextmanager
def of_tensor(name: str) -> Generator[None]:
    """Prepends the tensor's name to the messages of errors raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"tensor {name!r}: {error.message}", hint=error.hint) from error
