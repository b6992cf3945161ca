"""Parses preference rows: two answers to one prompt, the better one first, or a rated answer.

`chosen` and `rejected` may be texts, single turns, or lists of turns. The prompt may be under
`prompt`, `question`, `problem`, an instruction, `messages` or `conversations`, or the common prefix
of both lists of turns. `chosen_messages` and `rejected_messages` are other names for the same.
`messages` may also repeat the prompt with the better answer. `margin` is by how much the better
answer is better. OpenAI's rows have `input`, `preferred_output` and `non_preferred_output`.

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
    require_flag,
    row_weight,
)
from zoo.gym.data.reading.turns.chat import CONTENT_KEYS, ROLE_KEYS
from zoo.gym.data.reading.turns.tools import CALL_KEYS, CALL_ROLE, TOOLS_KEYS
from zoo.gym.data.reading.turns.values import shown, text_of, type_name, wrong_type
from zoo.gym.data.records import Record
from zoo.gym.errors import InputError

Fields = dict[str, object]

NAME = "preference"

PAIRS = (("chosen", "rejected"), ("chosen_messages", "rejected_messages"))

_CHATS = ("messages", "conversations")
_INSTRUCTION = ("instruction", "input", "history")
_BESIDE = (*SYSTEM_KEYS, *TOOLS_KEYS)

READS = frozenset((*PAIRS[0], *PAIRS[1], *_CHATS, *_INSTRUCTION, "prompt", *_BESIDE))
"""Every key of a preference row that is read, except the key of a question."""


OPENAI_PAIR = ("preferred_output", "non_preferred_output")


def openai_pair(row: Fields) -> Fields:
    """Returns a row of OpenAI's preference fine-tuning with our keys, any other as it is."""
    asked = row.get("input")
    if not isinstance(asked, dict) or not any(key in row for key in OPENAI_PAIR):
        return row
    rest = {key: value for key, value in row.items() if key not in (*OPENAI_PAIR, "input")}
    sides = dict(zip(PAIRS[0], map(row.get, OPENAI_PAIR), strict=True))
    return {**rest, **cast("Fields", asked), **sides}


def is_preference(value: object) -> bool:
    """Returns whether a decoded row has answers to compare."""
    return isinstance(value, dict) and any(
        cast("Fields", value).get(key) is not None for pair in PAIRS for key in pair
    )


REPEATED = frozenset({"prompt", "chosen"})
"""The keys that repeat the content of `messages` in a row that `repeats_better`."""


def repeats_better(value: object) -> bool:
    """Returns whether the `messages` of a row are its prompt with its better answer, once more.

    `HuggingFaceH4/ultrafeedback_binarized` has such rows, for both kinds of training.
    """
    row = cast("Fields", value) if isinstance(value, dict) else {}
    chat, better, prompt = row.get("messages"), row.get("chosen"), row.get("prompt")
    if not isinstance(chat, list) or not isinstance(better, list | dict | str):
        return False
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    answer = _as_turns(cast("object", better), "chosen")
    return chat in (answer, [*(asked if isinstance(asked, list) else ()), *answer])


def parse_pair(row: Mapping[str, object], source: str, *, margins: bool = False) -> Record:
    """Returns a pair: one record with two sides, which share their prompt.

    Raises:
        InputError: the row is excluded, an answer or the prompt is missing or malformed, the
            answers are equal, or the margin is no number.
    """
    weight = row_weight(dict(row))
    if repeats_better(row):
        row = {key: value for key, value in row.items() if key != "messages"}
    pairs = [pair for pair in PAIRS if any(row.get(key) is not None for key in pair)]
    if len(pairs) > 1:
        raise InputError(
            f"two pairs of answers in one row: expected one, got {pairs[0]}, {pairs[1]}",
            code="data.two_pairs",
        )
    better, worse = keys = pairs[0]
    for key in keys:
        if row.get(key) is None:
            raise InputError(
                f"preference data: expected {better!r} and {worse!r}, got no {key!r}",
                code="data.missing_answer",
            )
    sides: list[Record] = []
    for key, part in zip(keys, _parts(row, better, worse), strict=True):
        try:
            _, (side,) = parse_row(part, source)
        except InputError as error:
            raise InputError(f"{key!r}: {error.message}", code=error.code) from None
        sides.append(side)
    if sides[0] == sides[1]:
        raise InputError(
            f"{better!r} and {worse!r} are the same: expected two different answers",
            code="data.equal_answers",
        )
    margin = _margin(row.get(MARGIN)) if margins else None
    return Record(source, "pair", sides=tuple(sides), margin=margin, weight=weight)


def _margin(value: object) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(
            f"{MARGIN!r}: expected a finite number, got {shown(str(value))}", code="data.bad_margin"
        )
    return float(value)


def _parts(row: Mapping[str, object], better: str, worse: str) -> list[Fields]:
    """Returns each answer with the prompt, as a row of prompt and completion or instruction."""
    sides = {key: row[key] for key in (better, worse)}
    first, second = sides.values()
    if type(first) is not type(second):
        got = f"{type_name(first)} and {type_name(second)}"
        raise InputError(
            f"{better!r} and {worse!r}: expected two of one kind, got {got}", code="data.wrong_type"
        )
    beside = {key: row[key] for key in _BESIDE if row.get(key) is not None}
    if row.get("instruction") is not None:
        beside |= {key: row[key] for key in _INSTRUCTION if key in row}
        for key, side in sides.items():
            _refuse_calls(side, key)
        return [{**beside, "output": text_of(_content(side), key)} for key, side in sides.items()]
    prompt = row[question] if (question := _question(row)) else _prompt(row)
    if isinstance(prompt, str) and isinstance(first, str):
        return [{**beside, "prompt": prompt, "completion": side} for side in (first, second)]
    turns, *answers = _turns(prompt, _as_turns(first, better), _as_turns(second, worse))
    return [{**beside, "prompt": turns, "completion": answer} for answer in answers]


def _refuse_calls(side: object, key: str) -> None:
    turn = cast("Fields", side) if isinstance(side, dict) else {}
    if any(turn.get(name) for name in CALL_KEYS) or CALL_ROLE in map(turn.get, ROLE_KEYS):
        raise InputError(
            f"{key!r}: tool calls after 'instruction': expected turns in 'prompt'",
            code="data.tool_call",
        )


def _content(side: object) -> object:
    """Returns the text of an answer that is a turn, or the answer itself."""
    turn = cast("Fields", side) if isinstance(side, dict) else {}
    return next((turn[key] for key in CONTENT_KEYS if key in turn), side)


def _prompt(row: Mapping[str, object]) -> object:
    keys = [key for key in ("prompt", *_CHATS) if row.get(key) is not None]
    if len(keys) > 1:
        raise InputError(
            f"two prompts in one row: expected one, got {' and '.join(map(repr, keys))}",
            code="data.two_prompts",
        )
    return row[keys[0]] if keys else None


def _question(row: Mapping[str, object]) -> str | None:
    """Returns the key of a text that is the prompt of a row without another one."""
    if any(row.get(key) is not None for key in ("prompt", "instruction", *_CHATS)):
        return None
    better, worse = next(
        [row.get(key) for key in pair] for pair in PAIRS if row.get(pair[0]) is not None
    )
    if isinstance(better, list) and isinstance(worse, list) and _shared(better, worse):
        return None
    return next((key for key in ("question", "problem") if isinstance(row.get(key), str)), None)


def reads(row: Mapping[str, object]) -> frozenset[str]:
    """Returns every key that is read of a row with a better answer."""
    return READS | frozenset(filter(None, [_question(row)]))


def _shared(better: list[object], worse: list[object]) -> list[object]:
    """Returns the turns that both answers begin with."""
    pairs = zip(better, worse, strict=False)
    return [pair[0] for pair in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def _as_turns(side: object, key: str) -> list[object]:
    """Returns an answer as turns."""
    if isinstance(side, list):
        return cast("list[object]", side)
    if isinstance(side, dict):
        return [cast("Fields", side)]
    if isinstance(side, str):
        return [{"role": "assistant", "content": side}]
    raise wrong_type(repr(key), "text or turns", side)


def _turns(prompt: object, better: list[object], worse: list[object]) -> list[list[object]]:
    """Returns the turns of the prompt, of the better and of the worse answer."""
    if isinstance(prompt, list):
        return [cast("list[object]", prompt), better, worse]
    if shared := _shared(better, worse):
        if isinstance(prompt, str) and prompt not in map(_content, shared):
            raise InputError(
                f"'prompt': expected one of the turns that both answers begin with, got "
                f"{shown(prompt)}",
                code="data.other_prompt",
            )
        return [shared, better[len(shared) :], worse[len(shared) :]]
    if isinstance(prompt, str):
        return [[{"role": "user", "content": prompt}], better, worse]
    raise InputError(
        "no prompt: expected 'prompt', 'question', 'messages', or turns that both answers begin "
        "with",
        code="data.no_prompt",
    )


def parse_rated(row: Mapping[str, object], source: str) -> tuple[str, Record]:
    """Returns the name of a row's format, and the rated answer.

    Only the last turn of a chat is rated; earlier ones are read.

    Raises:
        InputError: there is no rating, ratings differ, or there is no answer to rate.
    """
    labels = {key: row[key] for key in LABELS if row.get(key) is not None}
    ratings = ratings_of({key: require_flag(key, value) for key, value in labels.items()})
    if not ratings:
        raise InputError(
            "expected 'label' or 'forget' true or false, or 'chosen' and 'rejected', got an answer "
            "without a rating",
            code="data.no_rating",
        )
    if len(set(ratings.values())) > 1:
        raise InputError(
            f"{' and '.join(map(repr, ratings))}: expected one rating, got both",
            code="data.two_ratings",
        )
    weight, apart = row_weight(dict(row)), {*LABELS, *ROW_FLAGS}
    name, records = parse_row({key: row[key] for key in row if key not in apart}, source)
    if len(records) != 1 or records[0].kind == "text":
        raise InputError(
            f"expected an answer to a prompt, got a row of {name}", code="data.other_kind"
        )
    (answer,) = records
    read = (replace(turn, learned=False) for turn in answer.messages[:-1])
    answer = replace(answer, messages=(*read, *answer.messages[-1:]))
    return name, Record(source, "rated", sides=(answer,), good=all(ratings.values()), weight=weight)


def rated_of(pair: Record) -> tuple[Record, Record]:
    """Returns the better answer of a pair, rated good, and the worse one, rated bad."""
    better, worse = pair.sides
    rated = Record(pair.source, "rated", sides=(better,), good=True, weight=pair.weight)
    return rated, replace(rated, sides=(worse,), good=False)
