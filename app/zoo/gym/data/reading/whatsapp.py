"""Reads chats that WhatsApp exports as text: the messages of one speaker are to be learned.

Both forms are read, that of Android (`12/31/23, 21:04 - Name: text`) and that of iOS
(`[31.12.23, 21:04:05] Name: text`), with the date in any order. Lines of WhatsApp itself,
placeholders of media and deleted messages are left out and counted.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""The name of the format in messages."""

GAP = dt.timedelta(hours=6)
"""After such a silence a conversation is another one."""

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
"""A message that WhatsApp wrote in place of media or of a deleted one; iOS marks it by U+200E."""

_ORDERS = ("dmy", "mdy", "ymd")


@dataclass
class _Message:
    line: int
    date: tuple[int, ...]
    time: dt.timedelta
    speaker: str
    text: str


def is_whatsapp(head: bytes) -> bool:
    """Returns whether a file that begins so is such an export."""
    return _start(head.decode("utf-8", "replace").lstrip().partition("\n")[0]) is not None


def read_whatsapp(path: Path, me: str | None) -> "Iterator[tuple[Row, Mapping[str, int]]]":
    """Yields the conversations as rows with `messages`; with the first, how much is left out.

    Args:
        path: the export.
        me: the speaker whose messages are the assistant's.

    Raises:
        InputError: nobody is named, or somebody who says or answers nothing in the file.
    """
    dropped = Counter[str]()
    messages = list(_with_text(_messages(read_text(path), dropped), dropped))
    speakers = Counter(message.speaker for message in messages)
    if me is None or me not in speakers:
        listed = ", ".join(
            f"{shown(name)} ({counted(count, 'message')})" for name, count in speakers.most_common()
        )
        named = "who is to be learned" if me is None else f"a speaker, got {shown(me)}"
        raise InputError(
            f"{path}: me: expected {named}; the speakers are {listed or 'none'}",
            hint="name the one whose messages are learned: --me NAME",
        )
    rows = [
        Row(line, {"messages": turns})
        for part in _apart(messages)
        for line, turns in _turns(part, me, dropped, named=len(speakers) > 2)
    ]
    if not rows:
        raise InputError(f"{path}: expected a conversation in which {shown(me)} answers, got none")
    yield rows[0], dropped
    yield from ((row, {}) for row in rows[1:])


def _start(line: str) -> "re.Match[str] | None":
    start = _IOS.match(line) or _ANDROID.match(line)
    if start is None and (korean := _KOREAN.match(line)) and korean["named"]:
        start = korean
    return start


def _messages(text: str, dropped: "Counter[str]") -> Iterator[_Message]:
    """Yields the messages of speakers; a line without a date goes on with the one before."""
    last: _Message | None = None
    for number, line in enumerate(text.split("\n"), 1):
        start = _start(line)
        if start is None:
            if last is not None:
                last.text += f"\n{line}"
            continue
        if last is not None and last.speaker:
            yield last
        name, colon, said = line[start.end() :].partition(": ")
        if '"' in name or "“" in name:  # as in: Anna changed the group name to "Trip: Rome"
            colon = ""
        if not colon:
            dropped["system line"] += 1
        speaker = name.translate(_DIRECTIONS).strip() if colon else ""
        date = tuple(map(int, re.findall(r"\d+", start["date"])))
        last = _Message(number, date, _time(start), speaker, said)
    if last is not None and last.speaker:
        yield last


def _time(start: "re.Match[str]") -> dt.timedelta:
    hour = int(start["hour"])
    if half := start["half"] or start["named"]:
        hour = hour % 12 + 12 * (half.strip().lower() in _LATE)
    return dt.timedelta(hours=hour, minutes=int(start["minute"]))


def _with_text(messages: Iterator[_Message], dropped: "Counter[str]") -> Iterator[_Message]:
    for message in messages:
        text = _EDITED.sub("", _FILE.sub("", message.text, count=1)).strip()
        if not text or _NO_TEXT.fullmatch(text):
            dropped["placeholder"] += 1
            continue
        message.text = text.translate(_DIRECTIONS)
        yield message


def _apart(messages: Sequence[_Message]) -> Iterator[Sequence[_Message]]:
    """Yields the conversations: runs of messages without a long silence."""
    times = _times(messages)
    cuts = [
        i for i, (earlier, later) in enumerate(pairwise(times), 1) if abs(later - earlier) >= GAP
    ]
    for start, stop in pairwise([0, *cuts, len(messages)]):
        yield messages[start:stop]


def _times(messages: Sequence[_Message]) -> list[dt.datetime]:
    """Returns when each message was sent, with the order of day and month that is the most steady.

    Raises:
        InputError: no order makes dates of all of them.
    """
    orders: list[list[dt.datetime]] = []
    for order in _ORDERS:
        try:
            orders.append([_date(message.date, order) + message.time for message in messages])
        except ValueError:
            continue
    if not orders:
        raise InputError(f"expected dates of days, months and years, got {messages[0].date}")
    return min(
        orders,
        key=lambda times: sum((abs(later - earlier) for earlier, later in pairwise(times)), GAP),
    )


def _date(parts: tuple[int, ...], order: str) -> dt.datetime:
    year, month, day = (parts[order.index(letter)] for letter in "ymd")
    return dt.datetime(year + 2000 * (year < 100), month, day)  # noqa: DTZ001  a zone is not said


def _turns(
    messages: Sequence[_Message], me: str, dropped: "Counter[str]", *, named: bool
) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Yields the turns of a conversation with the line of the first; none if nobody is answered.

    Args:
        messages: the conversation.
        me: the speaker to learn.
        dropped: counts of what is left out.
        named: others' messages begin with their names, as in a group.
    """
    first = next((i for i, message in enumerate(messages) if message.speaker != me), len(messages))
    dropped["opening message"] += first
    heard = messages[first:]
    if all(message.speaker != me for message in heard):
        dropped["unanswered message"] += len(heard)
        return
    turns = [
        ("assistant", message.text)
        if message.speaker == me
        else ("user", f"{message.speaker}: {message.text}" if named else message.text)
        for message in heard
    ]
    yield heard[0].line, joined(turns, "\n")
