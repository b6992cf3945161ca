"""Turns errors of transformers, tokenizers and peft about a folder into one message."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.core.errors import GymError, InputError, NotAvailableError

MOST_CHARACTERS = 400
"""Some libraries list all known values."""


@contextmanager
def refusals(what: str, folder: Path | None = None) -> Generator[None]:
    """Turns whatever a library raises in the block into our error.

    The libraries validate little: a wrong value in a file can raise any exception wherever it is
    first used, and those of tokenizers are plain `Exception`s. So every exception is caught, and
    the block must contain only library calls. Our own errors pass through, and so do out-of-memory
    errors.

    Args:
        what: the file or folder and what failed; printed before the reason.
        folder: the folder that the block reads. If it is deleted meanwhile, libraries take it for
            a name on the hub, so that is reported as the reason instead.

    Raises:
        NotAvailableError: the block raised, and the folder is gone.
        InputError: the block raised.
    """
    try:
        yield
    except (GymError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not a MemoryError
            raise
        if folder is not None and not folder.is_dir():
            raise NotAvailableError(
                f"{what}: no such folder: '{folder}'", code="models.no_such_folder"
            ) from error
        raise InputError(f"{what}: {_reason(error)}", code="models.library_refused") from error


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no entry for {error}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    reason = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return reason[:MOST_CHARACTERS].rstrip(".")
