"""Which rows say the same, in whatever format they are written, and which belong together.

What is said are the words of each turn and who says them. Blanks, reasoning and flags such as
`weight` are left out.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

from zoo.gym.data.records import Record
from zoo.gym.data.rows import as_chat

Said = tuple[tuple[str, bytes], ...]
"""Role and digest of the words of each turn; rows that say the same have the same one."""

_LINE = re.compile(r"[^\n]+")


def what_is_said(record: Record) -> Said:
    """Returns what a row says, to be compared; a text is one turn of nobody.

    Empty turns before an answer, such as the prompt of a bare completion, say nothing.
    """
    if record.kind == "text":
        return (("text", _words(record.text)),)
    return tuple(
        (turn.role, _words(turn.content))
        for turn in as_chat(record)
        if turn.role == "assistant" or turn.content.strip()
    )


def count_equal(records: Sequence[Record]) -> int:
    """Returns how many rows say the same as an earlier one."""
    return len(records) - len(set(map(what_is_said, records)))


def related_rows(records: Sequence[Record]) -> list[list[int]]:
    """Returns the places of rows that belong together, by their first place.

    Those are rows that say the same, and chats with those that go on from them.
    """
    nodes: dict[tuple[int, str, bytes], int] = {}
    paths: list[list[int]] = []
    for record in records:
        path = [0]
        for role, words in what_is_said(record):
            path.append(nodes.setdefault((path[-1], role, words), len(nodes) + 1))
        paths.append(path)
    ends = {path[-1] for path in paths}
    groups: dict[int, list[int]] = {}
    for place, path in enumerate(paths):
        # rows that go on from one another share the shortest beginning that is a row itself
        shortest = next(node for node in path if node in ends)
        groups.setdefault(shortest, []).append(place)
    return list(groups.values())


def _words(text: str) -> bytes:
    """Returns a digest of the words of a text, taken line by line because texts may be huge."""
    digest = blake2b(digest_size=16)
    for line in _LINE.finditer(text):
        digest.update(
            "".join(f"{word} " for word in line[0].split()).encode("utf-8", "surrogatepass")
        )
    return digest.digest()
