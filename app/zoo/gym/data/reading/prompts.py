"""Parses rows of prompts that the model answers itself, with what a reward compares the answers to.

The prompt is a text or a list of turns, under `prompt`, `question`, `problem`, an instruction, or
`messages` up to the last turn of the user or of a tool. What a reward compares with is `answer`,
`solution` or `ground_truth`; an answer in prose is `completion`, `response`, `output` or the last
turn of `messages`. Every other field is passed to the reward. Only methods that sample answers read
such rows.
"""

from collections.abc import Mapping
from typing import cast

from zoo.gym.data.reading.keys import BESIDE, SYSTEM_KEYS, with_system
from zoo.gym.data.reading.names import PARTS
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.reading.turns.chat import parse_turns, refuse_media
from zoo.gym.data.reading.turns.tools import parse_tools, require_calls
from zoo.gym.data.reading.turns.values import text_of, type_name
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

NAME = "prompt to answer"
"""The name of the format in messages."""

PROMPTS = ("prompt", "question", "problem", "instruction", "messages", "conversations")
"""The keys of a prompt; of several in one row, the first is read."""

ANSWERS = ("answer", "solution", "ground_truth")
"""The keys of what a reward compares with; of several in one row, the first is read."""

_REFERENCES = ("completion", "response", "output")
_CHATS = ("messages", "conversations")
_PARTS = PARTS | {"input"}
_OWN = frozenset((*PROMPTS, "input", "answer", *_REFERENCES, *SYSTEM_KEYS))


def is_prompt(value: object) -> bool:
    """Returns whether a decoded row has a prompt."""
    return isinstance(value, dict) and any(
        cast("dict[str, object]", value).get(key) is not None for key in PROMPTS
    )


def parse_prompt(row: Mapping[str, object], source: str) -> Record:
    """Returns a prompt with what a reward needs.

    Args:
        row: a decoded row with a prompt.
        source: `file:line`.

    Raises:
        InputError: the prompt is empty or does not end with a user turn, or a field has the wrong
            type.
    """
    fields = dict(row)
    refuse_media(fields)
    key = next(key for key in PROMPTS if row.get(key) is not None)
    given, reference = row[key], _reference(row)
    turns, text = with_system(fields, ()), ""
    if isinstance(given, list) or key in _CHATS:
        listed = parse_turns(cast("list[object]", given), key)
        if key in _CHATS and listed and listed[-1].role == "assistant":
            said = _prose(listed[-1], key)
            listed, reference = listed[:-1], reference or said
        turns = with_system(fields, listed)
        _check_turns(turns, key)
    else:
        text = _text(row, key)
    answer_key = next((name for name in ANSWERS if row.get(name) is not None), "answer")
    read = {key, *({"input"} if key == "instruction" else ())}
    return Record(
        source,
        "prompt",
        turns,
        text,
        reference,
        answer=_answer(row.get(answer_key), answer_key),
        metadata={
            name: value
            for name, value in row.items()
            if name not in _OWN or (name in (*PROMPTS, "input") and name not in read)
        },
        tools=parse_tools(row),
    )


def beside(record: Record) -> frozenset[str]:
    """Returns the keys of a prompt's row that look like a part of the prompt, and are none."""
    return frozenset(f"{BESIDE}{key}" for key in record.metadata if key.casefold() in _PARTS)


def _text(row: Mapping[str, object], key: str) -> str:
    """Returns a prompt that is a text; an instruction with its input."""
    text = text_of(row[key], key)
    if not text.strip():
        raise InputError(f"{key!r} is empty: expected text")
    beside = row.get("input") if key == "instruction" else None
    more = "" if beside is None else text_of(beside, "input")
    return f"{text}{BLANK_LINE}{more}" if more.strip() else text


def _check_turns(turns: tuple[Message, ...], key: str) -> None:
    if not turns:
        raise InputError(f"{key!r} is empty: expected turns that end with a user turn")
    last = turns[-1]
    if last.role not in ("user", "tool"):
        raise InputError(f"{key!r}: expected a user turn at its end, got one of the {last.role}")
    require_calls(turns)
    if last.role == "user" and not last.content.strip():
        raise InputError(f"{key!r}: expected text in its last turn, got none")


def _reference(row: Mapping[str, object]) -> str:
    given = [key for key in _REFERENCES if row.get(key) is not None]
    if not given:
        return ""
    value = row[given[0]]
    if not isinstance(value, list):
        return text_of(value, given[0])
    turns = parse_turns(cast("list[object]", value), given[0])
    return _prose(turns[-1], given[0]) if turns else ""


def _prose(turn: Message, key: str) -> str:
    if turn.calls:
        raise InputError(
            f"{key!r}: expected an answer in words, got tool calls: a reward reads them as 'answer'"
        )
    return turn.content


def _answer(value: object, key: str) -> object:
    if isinstance(value, bool | dict):
        raise InputError(f"{key!r}: expected text, a number or a list, got {type_name(value)}")
    return value
