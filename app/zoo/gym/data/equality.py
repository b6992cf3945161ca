"""Finds rows with equal content in any format, and rows that must stay together.

The content is the role and the words of each turn, its tool calls and the row's tools. Whitespace,
reasoning and flags such as `weight` do not count.
"""

import json
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from zoo.gym.data.records import LEARNED, Message, Record
from zoo.gym.data.rows import as_chat, tools_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Content = tuple[tuple[str, bytes], ...]
"""Role and digest of the words of each turn; equal for rows with equal content."""

_CHUNK_ROWS = 65_536
_REPEATS = 100
_LINE = re.compile(r"[^\n]+")


def content_of(record: Record) -> Content:
    """Returns the comparable content of a row; a text is one turn without a role.

    Empty turns before an answer, such as the prompt of a bare completion, do not count.
    """
    if record.kind == "text":
        return (("text", _words(record.text)),)
    if record.kind == "pair":
        better, worse = map(content_of, record.sides)
        return (*better, ("rejected", _words(repr(worse))))
    if record.kind == "prompt":
        answer = "" if record.answer is None else str(record.answer)
        turns = (_turn(turn) for turn in as_chat(record))
        return (*_tools(record), *turns, ("answer", _words(f"{answer}\n{record.completion}")))
    turns = (
        _turn(turn) for turn in as_chat(record) if turn.role == "assistant" or turn.content.strip()
    )
    return (*_tools(record), *turns)


def _tools(record: Record) -> Content:
    tools = tools_of(record)
    return (("tools", _words(json.dumps([*tools]))),) if tools else ()


def _turn(turn: Message) -> tuple[str, bytes]:
    calls = [[call.name, call.arguments] for call in turn.calls]
    text = f"{turn.content}\n{json.dumps(calls, sort_keys=True)}" if calls else turn.content
    return turn.role, _words(text)


def relation_of(record: Record) -> Content:
    """Returns what rows are related by: their content, or the prompt where answers are compared.

    A pair without a prompt is related by its two answers, in either order.
    """
    if record.kind in LEARNED:
        return content_of(record)
    turns = list(as_chat(record))
    while turns and turns[-1].role == "assistant":
        turns.pop()
    prompt = tuple(_turn(turn) for turn in turns if turn.content.strip() or turn.calls)
    if prompt or record.kind != "pair":
        return (*_tools(record), *prompt) if prompt else content_of(record)
    return (("answers", b"".join(sorted(_words(repr(content_of(s))) for s in record.sides))),)


@dataclass(frozen=True)
class Related:
    """Which rows have equal content, and which must stay together.

    Rows with equal content, chats and their continuations, and pairs with one prompt are related:
    an answer to a learned prompt is no longer new.

    Attributes:
        group: the group of each row, int32 [rows]; groups are numbered by their first row.
        duplicates: the number of rows with the same content as an earlier one.
        same_prompt: the number of other rows with the prompt of an earlier one, if answers to it
            are compared.
        repeats: the first duplicates, each with the row that it repeats; rows count from 0.
    """

    group: "NDArray[np.int32]"
    groups: int
    duplicates: int
    same_prompt: int = 0
    repeats: tuple[tuple[int, int], ...] = ()


def related_rows(records: Iterable[Record]) -> Related:
    """Returns the groups of related rows; of each row only 64-bit digests are kept.

    A digest is of the beginning of a row up to the end of a turn. Chats that continue each other
    share the shortest beginning that is itself a row.
    """
    beginnings, stops, contents = array("Q"), array("Q"), array("Q")
    for record in records:
        beginnings.extend(_beginnings(relation_of(record)))
        stops.append(len(beginnings))
        is_learned = record.kind in LEARNED
        contents.append(beginnings[-1] if is_learned else [*_beginnings(content_of(record))][-1])
    return _grouped(beginnings, stops, contents)


def _beginnings(content: Content) -> Iterator[int]:
    digest = b""
    for role, words in content or (("empty", b""),):
        digest = blake2b(digest + role.encode() + words, digest_size=8).digest()
        yield int.from_bytes(digest, "little")


def _grouped(beginnings: "array[int]", stops: "array[int]", contents: "array[int]") -> Related:
    import numpy as np

    rows = len(stops)
    if not rows:
        return Related(np.zeros(0, dtype=np.int32), 0, 0)
    digests = np.frombuffer(beginnings, dtype=np.uint64)
    row_ends = np.frombuffer(stops, dtype=np.uint64).astype(np.int64)
    ends = np.unique(digests[row_ends - 1])
    keys = np.empty(rows, dtype=np.uint64)
    for start in range(0, rows, _CHUNK_ROWS):
        chunk = row_ends[start : start + _CHUNK_ROWS]
        first = int(row_ends[start - 1]) if start else 0
        part = digests[first : chunk[-1]]
        nearest = np.minimum(np.searchsorted(ends, part), len(ends) - 1)  # `ends` is sorted
        is_row = np.flatnonzero(ends[nearest] == part)
        begins = np.concatenate(([0], chunk[:-1] - first))
        keys[start : start + len(chunk)] = part[is_row[np.searchsorted(is_row, begins)]]
    different, repeats = _repeats(np.frombuffer(contents, dtype=np.uint64))
    same_prompt = different - len(ends)
    del digests, row_ends, ends
    # groups are numbered by their first row
    _, firsts, group = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.empty(len(firsts), dtype=np.int32)
    numbers[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.int32)
    return Related(numbers[group], len(firsts), rows - different, same_prompt, repeats)


def _repeats(contents: "NDArray[np.uint64]") -> tuple[int, tuple[tuple[int, int], ...]]:
    """Returns how many different contents there are, and the first rows that repeat one."""
    import numpy as np

    _, firsts, content = np.unique(contents, return_index=True, return_inverse=True)
    first_row = firsts[content]
    rows = np.flatnonzero(first_row != np.arange(len(contents)))[:_REPEATS]
    return len(firsts), tuple((int(row), int(first_row[row])) for row in rows)


def _words(text: str) -> bytes:
    """Returns a digest of the words of a text, line by line because texts may be huge."""
    digest = blake2b(digest_size=16)
    for line in _LINE.finditer(text):
        digest.update(
            "".join(f"{word} " for word in line[0].split()).encode("utf-8", "surrogatepass")
        )
    return digest.digest()
