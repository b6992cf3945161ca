"""Parses rows of prompts that the model answers itself, with what a reward compares the answers to.

The prompt is a text or a list of turns, under `prompt`, `question`, `problem`, an instruction, or
`messages` up to the last turn of the user or of a tool. What a reward compares with is `answer`,
`solution` or `ground_truth`; an answer in prose is `completion`, `response`, `output` or the last
turn of `messages`. Every other field is passed to the reward. Only methods that sample answers read
such rows.
"""

from collections.abc import Mapping
from typing import cast

from zoo.gym.data.reading.columns import PARTS
from zoo.gym.data.reading.keys import BESIDE, SYSTEM_KEYS, with_system
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.reading.turns.chat import parse_turns, refuse_media
from zoo.gym.data.reading.turns.tools import parse_tools, require_calls
from zoo.gym.data.reading.turns.values import text_of, wrong_type
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

NAME = "prompt to answer"

PROMPTS = ("prompt", "question", "problem", "instruction", "messages", "conversations")
"""The keys of a prompt; of several in one row, the first is read."""

ANSWERS = ("answer", "solution", "ground_truth")
"""The keys of what a reward compares with; of several in one row, the first is read."""

_REFERENCES = ("completion", "response", "output")
_CHATS = ("messages", "conversations")


def is_prompt(value: object) -> bool:
    """Returns whether a decoded row has a prompt."""
    row = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return any(row.get(key) is not None for key in PROMPTS)


def parse_prompt(row: Mapping[str, object], source: str) -> Record:
    """Returns a prompt with what a reward needs.

    Raises:
        InputError: the prompt is empty or does not end with a user turn, or a field has the wrong
            type.
    """
    fields = dict(row)
    refuse_media(fields)
    key = next(key for key in PROMPTS if row.get(key) is not None)
    prompt, reference = row[key], _reference(row)
    turns, text = with_system(fields, ()), ""
    if isinstance(prompt, list) or key in _CHATS:
        chat = parse_turns(cast("list[object]", prompt), key)
        if key in _CHATS and chat and chat[-1].role == "assistant":
            answer_text = _prose(chat[-1], key)
            chat, reference = chat[:-1], reference or answer_text
        turns = with_system(fields, chat)
        _check_turns(turns, key)
    else:
        text = _text(row, key)
    answer_key = next((name for name in ANSWERS if row.get(name) is not None), "answer")
    answer = row.get(answer_key)
    if isinstance(answer, bool | dict):
        raise wrong_type(repr(answer_key), "text, a number or a list", answer)
    read = {key, "answer", *_REFERENCES, *SYSTEM_KEYS}
    read |= {"input"} if key == "instruction" else set()
    metadata = {name: value for name, value in row.items() if name not in read}
    tools = parse_tools(row)
    return Record(
        source, "prompt", turns, text, reference, answer=answer, metadata=metadata, tools=tools
    )


def beside(record: Record) -> frozenset[str]:
    """Returns the keys of a prompt's row that look like a part of the prompt, and are none."""
    parts = PARTS | {"input"}
    return frozenset(f"{BESIDE}{key}" for key in record.metadata if key.casefold() in parts)


def _text(row: Mapping[str, object], key: str) -> str:
    """Returns a prompt that is a text; an instruction with its input."""
    text = text_of(row[key], key)
    if not text.strip():
        raise InputError(f"{key!r} is empty: expected text", code="data.empty_row")
    if key != "instruction" or row.get("input") is None:
        return text
    more = text_of(row["input"], "input")
    return f"{text}{BLANK_LINE}{more}" if more.strip() else text


def _check_turns(turns: tuple[Message, ...], key: str) -> None:
    if not turns:
        raise InputError(
            f"{key!r} is empty: expected turns that end with a user turn", code="data.empty_row"
        )
    last = turns[-1]
    if last.role not in ("user", "tool"):
        raise InputError(
            f"{key!r}: expected a user turn at its end, got one of the {last.role}",
            code="data.last_turn",
        )
    require_calls(turns)
    if last.role == "user" and not last.content.strip():
        raise InputError(
            f"{key!r}: expected text in its last turn, got none", code="data.empty_row"
        )


def _reference(row: Mapping[str, object]) -> str:
    key = next((key for key in _REFERENCES if row.get(key) is not None), None)
    if key is None:
        return ""
    if not isinstance(row[key], list):
        return text_of(row[key], key)
    turns = parse_turns(row[key], key)
    return _prose(turns[-1], key) if turns else ""


def _prose(turn: Message, key: str) -> str:
    if turn.calls:
        raise InputError(
            f"{key!r}: expected an answer in words, got tool calls: a reward reads them as "
            "'answer'",
            code="data.tool_call",
        )
    return turn.content
