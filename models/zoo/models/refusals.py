"""What transformers, tokenizers and peft say of a folder that they cannot use, in one sentence."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from zoo.core.errors import GymError, InputError, NotAvailableError

MOST_CHARACTERS = 400
"""Some libraries list everything they know."""


@contextmanager
def refusals(what: str, folder: Path | None = None) -> Generator[None]:
    """Turns whatever a library raises in the block into our error.

    The libraries check little beforehand: a wrong value in a file ends in any exception, wherever
    it is first used, and those of tokenizers are plain `Exception`s. So everything is taken here,
    and nothing but calls of a library belongs in the block. Our own errors pass, and so does a
    lack of memory.

    Args:
        what: the file or folder, and what failed; it stands in front of the reason.
        folder: what the block reads. Libraries take a folder that is deleted meanwhile for a name
            on the hub, so its absence is the reason, whatever they say.

    Raises:
        NotAvailableError: the block raised, and the folder is gone.
        InputError: the block raised.
    """
    try:
        yield
    except (GymError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which is no MemoryError
            raise
        if folder is not None and not folder.is_dir():
            raise NotAvailableError(f"{what}: no such folder: '{folder}'") from error
        raise InputError(f"{what}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no entry for {error}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    told = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return told[:MOST_CHARACTERS].rstrip(".")
