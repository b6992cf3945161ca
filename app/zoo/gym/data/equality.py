"""Finds rows with equal content in any format, and rows that must stay together.

The content is the role and the words of each turn. Whitespace, reasoning and flags such as `weight`
do not count.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

from zoo.gym.data.records import Record
from zoo.gym.data.rows import as_chat

Said = tuple[tuple[str, bytes], ...]
"""Role and digest of the words of each turn; equal for rows with equal content."""

_LINE = re.compile(r"[^\n]+")


def what_is_said(record: Record) -> Said:
    """Returns the comparable content of a row; a text is one turn without a role.

    Empty turns before an answer, such as the prompt of a bare completion, do not count.
    """
    if record.kind == "text":
        return (("text", _words(record.text)),)
    if record.kind == "pair":
        better, worse = map(what_is_said, record.sides)
        return (*better, ("rejected", _words(repr(worse))))
    if record.kind == "prompt":
        known = "" if record.answer is None else str(record.answer)
        turns = ((turn.role, _words(turn.content)) for turn in as_chat(record))
        return (*turns, ("answer", _words(f"{known}\n{record.completion}")))
    return tuple(
        (turn.role, _words(turn.content))
        for turn in as_chat(record)
        if turn.role == "assistant" or turn.content.strip()
    )


def count_equal(records: Sequence[Record]) -> int:
    """Returns how many rows have the same content as an earlier one."""
    return len(records) - len(set(map(what_is_said, records)))


def related_rows(records: Sequence[Record]) -> list[list[int]]:
    """Returns groups of indices of related rows, ordered by their first index.

    Related are rows with equal content, and chats with the chats that continue them.
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
        # chats that continue each other share the shortest prefix that is itself a row
        shortest = next(node for node in path if node in ends)
        groups.setdefault(shortest, []).append(place)
    return list(groups.values())


def _words(text: str) -> bytes:
    """Returns a digest of the words of a text, line by line because texts may be huge."""
    digest = blake2b(digest_size=16)
    for line in _LINE.finditer(text):
        digest.update(
            "".join(f"{word} " for word in line[0].split()).encode("utf-8", "surrogatepass")
        )
    return digest.digest()
