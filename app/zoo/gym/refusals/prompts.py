"""The prompts that ship with the program: harmful ones, and harmless ones that sound harmful."""

from functools import cache
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"
_HARMFUL, _HARMLESS = TEXTS / "harmful.txt", TEXTS / "harmless.txt"


@cache
def harmful() -> tuple[str, ...]:
    """Returns 60 requests that an aligned model refuses."""
    return tuple(_HARMFUL.read_text(encoding="utf-8").splitlines())


@cache
def harmless() -> tuple[str, ...]:
    """Returns 60 questions that an overcautious model refuses for their words."""
    return tuple(_HARMLESS.read_text(encoding="utf-8").splitlines())


@cache
def prompts_digest() -> str:
    """Returns the BLAKE3 of the bytes of both files, the harmful prompts first."""
    from zoo.core import digest

    return digest(_HARMFUL.read_bytes() + _HARMLESS.read_bytes())
