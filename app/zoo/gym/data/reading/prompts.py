"""Parses rows of prompts that the model answers itself, with what a reward compares the answers to.

The prompt is a text or a list of turns. `answer` is what a reward compares with, `completion` or
`response` an answer in prose; every other field is passed to the reward. Only methods that sample
answers read such rows.
"""

from collections.abc import Mapping
from typing import cast

from zoo.gym.data.reading.chat import parse_turns, refuse_media, text_of, type_name
from zoo.gym.data.reading.keys import SYSTEM_KEYS, with_system
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

NAME = "prompt to answer"
"""The name of the format in messages."""

_REFERENCES = ("completion", "response")
_OWN = frozenset(("prompt", "answer", *_REFERENCES, *SYSTEM_KEYS))


def is_prompt(value: object) -> bool:
    """Returns whether a decoded row has a prompt."""
    return isinstance(value, dict) and cast("dict[str, object]", value).get("prompt") is not None


def parse_prompt(row: Mapping[str, object], source: str) -> Record:
    """Returns a prompt with what a reward needs.

    Args:
        row: a decoded row with `prompt`.
        source: `file:line`.

    Raises:
        InputError: the prompt is empty or does not end with a user turn, or a field has the wrong
            type.
    """
    fields = dict(row)
    refuse_media(fields)
    prompt, turns = row["prompt"], with_system(fields, ())
    if isinstance(prompt, list):
        prompt, turns = "", with_system(fields, parse_turns(cast("list[object]", prompt), "prompt"))
        _check_turns(turns)
    text = text_of(prompt, "prompt")
    if not text.strip() and not isinstance(row["prompt"], list):
        raise InputError("'prompt' is empty: expected text")
    return Record(
        source,
        "prompt",
        turns,
        text,
        _reference(row),
        answer=_answer(row.get("answer")),
        metadata={key: value for key, value in row.items() if key not in _OWN},
    )


def _check_turns(turns: tuple[Message, ...]) -> None:
    if not turns:
        raise InputError("'prompt' is empty: expected turns that end with a user turn")
    last = turns[-1]
    if last.role != "user":
        raise InputError(f"'prompt': expected a user turn at its end, got one of the {last.role}")
    if not last.content.strip():
        raise InputError("'prompt': expected text in its last turn, got none")


def _reference(row: Mapping[str, object]) -> str:
    given = [key for key in _REFERENCES if row.get(key) is not None]
    if not given:
        return ""
    value = row[given[0]]
    if not isinstance(value, list):
        return text_of(value, given[0])
    turns = parse_turns(cast("list[object]", value), given[0])
    return turns[-1].content if turns else ""


def _answer(value: object) -> object:
    if isinstance(value, bool | dict):
        raise InputError(f"'answer': expected text, a number or a list, got {type_name(value)}")
    return value
