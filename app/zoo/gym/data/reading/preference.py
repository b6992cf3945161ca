"""Parses preference rows: two answers to one prompt, the better one first, or a rated answer.

`chosen` and `rejected` may be texts, single turns, or lists of turns. The prompt may be under
`prompt`, `question`, `problem`, an instruction, `messages` or `conversations`, or the common prefix
of both lists of turns. `chosen_messages` and `rejected_messages` are other names for the same.
`messages` may also repeat the prompt with the better answer. `margin` is by how much the better
answer is better.

The rating of one answer to one prompt is under `label` (as in TRL) or `kto_tag` (as in
LLaMA-Factory), true or false, or 1 or 0, or under `forget`, which is true for a bad answer; prompt
and answer are in any format of one answer. A pair is two rated answers.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import cast

from zoo.gym.data.reading.formats import parse_row
from zoo.gym.data.reading.keys import (
    LABELS,
    MARGIN,
    ROW_FLAGS,
    SYSTEM_KEYS,
    ratings_of,
    row_weight,
)
from zoo.gym.data.reading.turns.chat import CONTENT_KEYS, ROLE_KEYS
from zoo.gym.data.reading.turns.tools import CALL_KEYS, CALL_ROLE, TOOLS_KEYS
from zoo.gym.data.reading.turns.values import shown, text_of, type_name
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

Fields = dict[str, object]

NAME = "preference"
"""The name of the format in messages."""

PAIRS = (("chosen", "rejected"), ("chosen_messages", "rejected_messages"))
"""The keys of the better and the worse answer."""

_CHATS = ("messages", "conversations")
_QUESTIONS = ("question", "problem")
_INSTRUCTION = ("instruction", "input", "history")
_BESIDE = (*SYSTEM_KEYS, *TOOLS_KEYS)

READS = frozenset(
    (*(key for pair in PAIRS for key in pair), *_CHATS, *_INSTRUCTION, "prompt", *_BESIDE)
)
"""Every key of a preference row that is read, besides a question in place of a prompt."""

EXPECTED = "expected 'label' or 'forget' true or false, or 'chosen' and 'rejected'"
"""What a method that learns from rated answers reads."""


def is_preference(value: object) -> bool:
    """Returns whether a decoded row has answers to compare."""
    return isinstance(value, dict) and any(
        cast("Fields", value).get(key) is not None for pair in PAIRS for key in pair
    )


REPEATED = frozenset({"prompt", "chosen"})
"""The keys whose content is in `messages` as well, in a row that `repeats_better`."""


def repeats_better(value: object) -> bool:
    """Returns whether the `messages` of a row are its prompt with its better answer, once more.

    So it is in `HuggingFaceH4/ultrafeedback_binarized`, which is for both kinds of training.
    """
    row = cast("Fields", value) if isinstance(value, dict) else {}
    chat, better, prompt = row.get("messages"), row.get("chosen"), row.get("prompt")
    if not isinstance(chat, list) or not isinstance(better, list | dict | str):
        return False
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    before = cast("list[object]", asked) if isinstance(asked, list) else []
    answer = _listed(cast("object", better), "chosen")
    return chat in (answer, before + answer)


def parse_pair(row: Mapping[str, object], source: str, *, margins: bool = False) -> Record:
    """Returns a pair: one record with two sides, which share their prompt.

    Args:
        row: a decoded row with answers to compare.
        source: `file:line`.
        margins: read the margin, too.

    Raises:
        InputError: the row is excluded, an answer or the prompt is missing or malformed, the
            answers are equal, or the margin is no number.
    """
    weight = row_weight(dict(row))
    if repeats_better(row):
        row = {key: value for key, value in row.items() if key != "messages"}
    given = [pair for pair in PAIRS if any(row.get(key) is not None for key in pair)]
    if len(given) > 1:
        raise InputError(
            f"two pairs of answers in one row: expected one, got {given[0]}, {given[1]}"
        )
    better, worse = given[0]
    for key in (better, worse):
        if row.get(key) is None:
            raise InputError(f"preference data: expected {better!r} and {worse!r}, got no {key!r}")
    parts = _parts(row, better, worse)
    sides: list[Record] = []
    for key, part in zip((better, worse), parts, strict=True):
        try:
            _, (side,) = parse_row(part, source)
        except InputError as error:
            raise InputError(f"{key!r}: {error.message}") from None
        sides.append(side)
    if sides[0] == sides[1]:
        raise InputError(f"{better!r} and {worse!r} are the same: expected two different answers")
    margin = _margin(row) if margins else None
    return Record(source, "pair", sides=(sides[0], sides[1]), margin=margin, weight=weight)


def _margin(row: Mapping[str, object]) -> float:
    value = row.get(MARGIN)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{MARGIN!r}: expected a finite number, got {shown(str(value))}")
    return float(value)


def _parts(row: Mapping[str, object], better: str, worse: str) -> tuple[Fields, Fields]:
    """Returns each answer with the prompt, as a row of prompt and completion or instruction."""
    first, second = row[better], row[worse]
    if type(first) is not type(second):
        got = f"{type_name(first)} and {type_name(second)}"
        raise InputError(f"{better!r} and {worse!r}: expected two of one kind, got {got}")
    beside = {key: row[key] for key in _BESIDE if row.get(key) is not None}
    if row.get("instruction") is not None:
        asked = {key: row[key] for key in _INSTRUCTION if key in row}
        _refuse_calls(first, better)
        _refuse_calls(second, worse)
        texts = (text_of(_content(side), key) for side, key in ((first, better), (second, worse)))
        one, two = ({**beside, **asked, "output": text} for text in texts)
        return one, two
    prompt = row[question] if (question := _question(row)) else _prompt(row)
    if isinstance(prompt, str) and isinstance(first, str):
        one, two = ({**beside, "prompt": prompt, "completion": side} for side in (first, second))
        return one, two
    turns, answers = _turns(prompt, _listed(first, better), _listed(second, worse))
    one, two = ({**beside, "prompt": turns, "completion": answer} for answer in answers)
    return one, two


def _refuse_calls(side: object, key: str) -> None:
    turn = cast("Fields", side) if isinstance(side, dict) else {}
    if any(turn.get(name) for name in CALL_KEYS) or CALL_ROLE in map(turn.get, ROLE_KEYS):
        raise InputError(f"{key!r}: tool calls after 'instruction': expected turns in 'prompt'")


def _content(side: object) -> object:
    """Returns the text of an answer that is a turn, or the answer itself."""
    if not isinstance(side, dict):
        return side
    turn = cast("Fields", side)
    return next((turn[key] for key in CONTENT_KEYS if key in turn), side)


def _prompt(row: Mapping[str, object]) -> object:
    keys = [key for key in ("prompt", *_CHATS) if row.get(key) is not None]
    if len(keys) > 1:
        raise InputError(
            f"two prompts in one row: expected one, got {' and '.join(map(repr, keys))}"
        )
    return row[keys[0]] if keys else None


def _question(row: Mapping[str, object]) -> str | None:
    """Returns the key of a text that is the prompt of a row without another one."""
    if any(row.get(key) is not None for key in ("prompt", "instruction", *_CHATS)):
        return None
    better, worse = next(
        [row.get(key) for key in pair] for pair in PAIRS if row.get(pair[0]) is not None
    )
    chats = (cast("list[object]", side) for side in (better, worse) if isinstance(side, list))
    if len(listed := list(chats)) == 2 and _shared(*listed):
        return None
    return next((key for key in _QUESTIONS if isinstance(row.get(key), str)), None)


def reads(row: Mapping[str, object]) -> frozenset[str]:
    """Returns every key that is read of a row with a better answer."""
    question = _question(row)
    return READS | ({question} if question else set[str]())


def _shared(better: list[object], worse: list[object]) -> list[object]:
    """Returns the turns that both answers begin with."""
    pairs = zip(better, worse, strict=False)
    return [pair[0] for pair in takewhile(lambda p: p[0] == p[1], pairs)]


def _listed(side: object, key: str) -> list[object]:
    """Returns an answer as turns."""
    if isinstance(side, list):
        return cast("list[object]", side)
    if isinstance(side, dict):
        return [cast("Fields", side)]
    if isinstance(side, str):
        return [{"role": "assistant", "content": side}]
    raise InputError(f"{key!r}: expected text or turns, got {type_name(side)}")


def _turns(
    prompt: object, better: list[object], worse: list[object]
) -> tuple[list[object], tuple[list[object], list[object]]]:
    """Returns the turns of the prompt, and those of each answer."""
    if isinstance(prompt, list):
        return cast("list[object]", prompt), (better, worse)
    if shared := _shared(better, worse):
        if isinstance(prompt, str) and prompt not in map(_content, shared):
            raise InputError(
                f"'prompt': expected one of the turns that both answers begin with, got "
                f"{shown(prompt)}"
            )
        return shared, (better[len(shared) :], worse[len(shared) :])
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}], (better, worse)
    raise InputError(
        "no prompt: expected 'prompt', 'question', 'messages', or turns that both answers begin "
        "with"
    )


def parse_rated(row: Mapping[str, object], source: str) -> tuple[str, Record]:
    """Returns the name of a row's format, and the rated answer.

    Only the last turn of a chat is rated; earlier ones are read.

    Args:
        row: a decoded row.
        source: `file:line`.

    Raises:
        InputError: there is no rating, ratings differ, or there is no answer to rate.
    """
    ratings = ratings_of({key: _rating(row, key) for key in LABELS})
    if not ratings:
        raise InputError(f"{EXPECTED}, got an answer without a rating")
    if len(set(ratings.values())) > 1:
        raise InputError(f"{' and '.join(map(repr, ratings))}: expected one rating, got both")
    weight, apart = row_weight(dict(row)), {*LABELS, *ROW_FLAGS}
    name, records = parse_row({key: row[key] for key in row if key not in apart}, source)
    if len(records) != 1 or records[0].kind == "text":
        raise InputError(f"expected an answer to a prompt, got a row of {name}")
    answer = replace(records[0], messages=_last_learned(records[0].messages))
    return name, Record(source, "rated", sides=(answer,), good=all(ratings.values()), weight=weight)


def _rating(row: Mapping[str, object], key: str) -> bool | None:
    value = row.get(key)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    got = shown(value) if isinstance(value, str) else str(value)
    if not isinstance(value, str | int | float):
        got = type_name(value)
    raise InputError(f"{key!r}: expected true or false, or 1 or 0, got {got}")


def rated_of(pair: Record) -> tuple[Record, Record]:
    """Returns the better answer of a pair, rated good, and the worse one, rated bad."""
    better, worse = pair.sides
    return (
        Record(pair.source, "rated", sides=(better,), good=True, weight=pair.weight),
        Record(pair.source, "rated", sides=(worse,), good=False, weight=pair.weight),
    )


def _last_learned(turns: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns turns of which only the last is learned."""
    return (*(replace(turn, learned=False) for turn in turns[:-1]), *turns[-1:])
