"""Reads plain text files as paragraphs; joined by blank lines they give the file again."""

import re
from collections.abc import Iterator
from pathlib import Path

from zoo.gym.data.reading.files import read_text
from zoo.gym.data.reading.lookalikes import refuse_lookalikes
from zoo.gym.data.records import Record

BLANK_LINE = "\n\n"
"""The separator between two texts of a stream."""

_BETWEEN = re.compile(r"\n\n(?!\n)")


def read_paragraphs(path: Path) -> Iterator[Record]:
    """Yields the paragraphs of a text file as text records.

    Newlines around the whole file are removed. If more than one blank line separates two
    paragraphs, the first one keeps the extra ones, so nothing is lost. The file is one
    document, which ends with the last paragraph.

    Raises:
        InputError: the file is not UTF-8, or begins like rows or a document of another format.
    """
    text = read_text(path)
    refuse_lookalikes(path, text)
    body = text.strip("\n")
    line = 1 + len(text) - len(text.lstrip("\n"))
    *paragraphs, last = _BETWEEN.split(body)
    for paragraph in paragraphs:
        yield Record(f"{path}:{line}", "text", text=paragraph)
        line += paragraph.count("\n") + len(BLANK_LINE)
    yield Record(f"{path}:{line}", "text", text=last, ends=True)
