"""Splits what is typed into the words of a command."""

import shlex


def split(text: str) -> list[str]:
    """Returns the words of a text, quoted ones whole; a quote that does not end is a letter."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
