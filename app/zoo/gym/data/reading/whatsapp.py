"""Reads chats that WhatsApp exports as text: the messages of one speaker are to be learned.

It reads the forms of Android (`12/31/23, 21:04 - Name: text`) and of iOS (`[31.12.23, 21:04:05]
Name: text`), with the date in any order. Lines of WhatsApp itself, placeholders of media and
deleted messages are left out and counted.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from zoo.gym.data.reading.files import read_text
from zoo.gym.data.reading.jsonl import Row
from zoo.gym.data.reading.turns.exports import joined
from zoo.gym.data.reading.turns.values import shown
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

NAME = "WhatsApp export"

GAP = dt.timedelta(hours=6)
"""A silence of this length separates two conversations."""

_STAMP = (
    r"(?P<date>\d{1,4}\u200f?[./-] ?\d{1,2}\u200f?[./-] ?\d{1,4})\.?(?:[,،]| à| klo)? "
    r"(?P<named>[上下午前後오전후]{2} ?)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.]\d\d)?"
    r"(?:\s?(?P<half>[AaPpصم])\.?(?:\s?[Mm]\.?)?)?"
)
_MARK = r"[\u200e\u200f]?"
_ANDROID, _IOS = re.compile(rf"{_MARK}{_STAMP} - "), re.compile(rf"{_MARK}\[{_STAMP}\] ")
_KOREAN = re.compile(rf"{_STAMP}(?<=\d), ")
_LATE = frozenset({"p", "م", "下午", "午後", "오후"})
"""The marks of hours after noon."""

_DIRECTIONS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202b\u202c\u202d\u202e"))
_EDITED = re.compile(r"\s*\u200e<[^<>]+>$|(^|\s+)<[\w'\u2019]+( [\w'\u2019]+)+\.?>$")
"""The mark of an edited message, in any language: words in angle brackets at its end."""

_FILE = re.compile(
    r"\A\u200e?\S+\.(jpe?g|png|webp|gif|mp4|3gp|opus|m4a|mp3|aac|ogg|pdf|docx?|xlsx?|pptx?|vcf|zip)"
    r" \([^()\n]+\)(\n|$)"
)
"""The line of an attached file on Android, in any language; its caption follows."""

_NO_TEXT = re.compile(
    r"\u200e.*|<[^<>\n]+>|.+ \(file attached\)|(image|video|audio|sticker|gif|document) omitted"
    r"|(this message was deleted|you deleted this message)\.?|null"
    r"|(diese nachricht wurde gelöscht|du hast diese nachricht gelöscht)\.?"
    r"|(se eliminó este mensaje|eliminaste este mensaje)\.?"
    r"|(ce message a été supprimé|vous avez supprimé ce message)\.?"
    r"|(questo messaggio è stato eliminato|hai eliminato questo messaggio)\.?"
    r"|((esta )?mensagem (foi )?apagada|você apagou esta mensagem)\.?"
    r"|(dit bericht is verwijderd|je hebt dit bericht verwijderd)\.?",
    re.IGNORECASE | re.DOTALL,
)
"""A message that WhatsApp wrote for media or a deleted message; iOS marks it by U+200E."""


@dataclass
class _Message:
    line: int
    date: tuple[int, ...]
    time: dt.timedelta
    speaker: str
    text: str


def is_whatsapp(head: bytes) -> bool:
    """Returns whether a file with these first bytes is an export of WhatsApp."""
    return _start(head.decode("utf-8", "replace").lstrip().partition("\n")[0]) is not None


def read_whatsapp(path: Path, me: str | None) -> "Iterator[tuple[Row, Mapping[str, int]]]":
    """Yields the conversations as rows with `messages`, and with the first the counts of omissions.

    Args:
        me: the speaker with the assistant's messages.

    Raises:
        InputError: `me` is None, or names a speaker without messages or answers in the file.
    """
    dropped = Counter[str]()
    messages = list(_messages(read_text(path), dropped))
    speakers = Counter(message.speaker for message in messages)
    if me is None or me not in speakers:
        listed = ", ".join(
            f"{shown(name)} ({counted(count, 'message')})" for name, count in speakers.most_common()
        )
        named = "who is to be learned" if me is None else f"a speaker, got {shown(me)}"
        raise InputError(
            f"{path}: me: expected {named}; the speakers are {listed or 'none'}",
            hint="name the speaker to learn from: --me NAME",
            code="data.unknown_speaker",
        )
    rows = [
        Row(line, {"messages": turns})
        for part in _apart(messages)
        for line, turns in _turns(part, me, dropped, named=len(speakers) > 2)
    ]
    if not rows:
        raise InputError(
            f"{path}: expected a conversation in which {shown(me)} answers, got none",
            code="data.no_answer",
        )
    yield rows[0], dropped
    yield from ((row, {}) for row in rows[1:])


def _start(line: str) -> "re.Match[str] | None":
    start = _IOS.match(line) or _ANDROID.match(line)
    if start is None and (korean := _KOREAN.match(line)) and korean["named"]:
        start = korean
    return start


def _messages(text: str, dropped: "Counter[str]") -> Iterator[_Message]:
    """Yields the messages of speakers; a line without a date continues the message above it."""
    messages: list[_Message] = []
    for number, line in enumerate(text.split("\n"), 1):
        start = _start(line)
        if start is None:
            if messages:
                messages[-1].text += f"\n{line}"
            continue
        name, colon, content = line[start.end() :].partition(": ")
        if '"' in name or "“" in name:  # as in: Anna changed the group name to "Trip: Rome"
            colon = ""
        if not colon:
            dropped["system line"] += 1
        speaker = name.translate(_DIRECTIONS).strip() if colon else ""
        date = tuple(map(int, re.findall(r"\d+", start["date"])))
        hour = int(start["hour"])
        if half := start["half"] or start["named"]:
            hour = hour % 12 + 12 * (half.strip().lower() in _LATE)
        time = dt.timedelta(hours=hour, minutes=int(start["minute"]))
        messages.append(_Message(number, date, time, speaker, content))
    for message in messages:
        content = _EDITED.sub("", _FILE.sub("", message.text, count=1)).strip()
        if not message.speaker:
            continue
        if content and not _NO_TEXT.fullmatch(content):
            message.text = content.translate(_DIRECTIONS)
            yield message
        else:
            dropped["placeholder"] += 1


def _apart(messages: Sequence[_Message]) -> Iterator[Sequence[_Message]]:
    """Yields the conversations: runs of messages without a long silence."""
    pairs = enumerate(pairwise(_times(messages)), 1)
    cuts = [index for index, (earlier, later) in pairs if abs(later - earlier) >= GAP]
    for start, stop in pairwise([0, *cuts, len(messages)]):
        yield messages[start:stop]


def _times(messages: Sequence[_Message]) -> list[dt.datetime]:
    """Returns when each message was sent, in the order of day and month with the shortest gaps."""
    orders: list[list[dt.datetime]] = []
    for order in ("dmy", "mdy", "ymd"):
        with suppress(ValueError):
            orders.append([_date(message.date, order) + message.time for message in messages])
    if not orders:
        raise InputError(
            f"expected dates of days, months and years, got {messages[0].date}",
            code="data.bad_date",
        )
    return min(orders, key=lambda times: sum((abs(b - a) for a, b in pairwise(times)), GAP))


def _date(parts: tuple[int, ...], order: str) -> dt.datetime:
    year, month, day = (parts[order.index(letter)] for letter in "ymd")
    return dt.datetime(year + 2000 * (year < 100), month, day)  # noqa: DTZ001  the export has no zone


def _turns(
    messages: Sequence[_Message], me: str, dropped: "Counter[str]", *, named: bool
) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Yields the turns of a conversation with the line of the first; none without an answer.

    Args:
        named: others' messages begin with their names, as in a group.
    """
    first = next((i for i, message in enumerate(messages) if message.speaker != me), len(messages))
    dropped["opening message"] += first
    messages = messages[first:]
    if all(message.speaker != me for message in messages):
        dropped["unanswered message"] += len(messages)
        return
    turns = [
        ("assistant", message.text)
        if message.speaker == me
        else ("user", f"{message.speaker}: {message.text}" if named else message.text)
        for message in messages
    ]
    yield messages[0].line, joined(turns, "\n")
