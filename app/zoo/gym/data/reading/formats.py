"""Detects the format of each row by its keys and parses it; refuses unknown formats."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import cast

from zoo.gym.data.reading.keys import (
    LABELS,
    NEEDS_PREFERENCE,
    SYSTEM_KEYS,
    preference_keys,
    refuse_unlearnable,
    with_system,
)
from zoo.gym.data.reading.names import ANSWERED, ASKED, PARTS
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.reading.turns.chat import (
    MEDIA_KEYS,
    ROLE_KEYS,
    parse_chat,
    parse_turns,
    refuse_media,
    require_answer,
)
from zoo.gym.data.reading.turns.oasst import best_path
from zoo.gym.data.reading.turns.tools import TOOLS_KEYS, parse_tools
from zoo.gym.data.reading.turns.values import shown, text_of, type_name
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of rows.

    Attributes:
        name: its name for the user.
        keys: a row with all of these keys has this format.
        parse: row, source -> records.
        also: other keys that are read or refused.
    """

    name: str
    keys: tuple[str, ...]
    parse: Callable[[Fields, str], list[Record]]
    also: tuple[str, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """Every key that is read or refused."""
        return frozenset((*self.keys, *self.also))


def parse_row(value: object, source: str) -> tuple[str, list[Record]]:
    """Returns the name of a row's format, and its records.

    Args:
        value: a decoded JSON value; a plain string is a text row.
        source: `file:line`.

    Raises:
        InputError: no known format, or something in the row is wrong; the message lacks the source.
    """
    if isinstance(value, str):
        return "text", _text({"text": value}, source)
    if not isinstance(value, dict):
        raise InputError(f"expected an object, got {type_name(value)}")
    row = cast("Fields", value)
    try:
        return _parse(row, source)
    except InputError:
        if key := _rows_within(row):
            raise InputError(
                f"the rows are in a list under the key {shown(key)}: expected only that list, "
                "or one row per line"
            ) from None
        raise


def _parse(row: Fields, source: str) -> tuple[str, list[Record]]:
    known = _format_of(row)
    refuse_unlearnable(row, is_text=known.name == "text")
    if known.name != "text":
        refuse_media(row)
    records = known.parse(row, source)
    if known.reads.issuperset(TOOLS_KEYS) and (tools := parse_tools(row)):
        records = [replace(record, tools=tools) for record in records]
    return known.name, records


def has_format(row: Fields) -> bool:
    """Returns whether a row has all keys of a format, under just these names."""
    return any(all(key in row for key in known.keys) for known in FORMATS)


def _rows_within(row: Fields) -> str | None:
    """Returns the key of a list of rows if a whole file of rows is wrapped in an object.

    Turns can have a text too: that alone does not make them rows.
    """
    for key, value in row.items():
        listed = cast("list[object]", value) if isinstance(value, list) else []
        first = cast("Fields", listed[0]) if listed and isinstance(listed[0], dict) else {}
        turn = any(key in known.reads for known in FORMATS) or not first.keys().isdisjoint(
            ROLE_KEYS
        )
        fits = (known for known in FORMATS if all(name in first for name in known.keys))
        if any(known.name != "text" or not turn for known in fits):
            return key
    return None


def _format_of(row: Fields) -> Format:
    """Returns the format of a row; a key with value null counts only if no other format fits.

    Raises:
        InputError: no format fits, or two do.
    """
    fits = [known for known in FORMATS if all(row.get(key) is not None for key in known.keys)]
    if not fits:
        fits = [known for known in FORMATS if all(key in row for key in known.keys)][:1]
    if not fits and (pair := _question_answer(row)):
        return pair
    if not fits:
        raise InputError(_unknown(row))
    first, *others = fits
    if first.name not in _CHATS:  # next to a pair, 'text' is the same rendered with a template
        others = [known for known in others if known.name != "text"]
    if others:
        keys = " and ".join(
            " with ".join(f"{key!r}" for key in known.keys) for known in (first, others[0])
        )
        raise InputError(f"two formats in one row: expected one, got {keys}")
    return first


def _unknown(row: Fields) -> str:
    """Returns which keys a row has, which format is nearest, and which of its keys is missing."""
    if preferred := preference_keys(row):
        return f"preference data, with {preferred}: {NEEDS_PREFERENCE}"
    keys = ", ".join(shown(key) for key in list(row)[:8]) or "none"
    if pair := _other_pair(row):
        return f"no known format: expected 'chosen' and 'rejected', got {pair}: rename the keys"
    asked, answered = _named(row, ASKED), _named(row, ANSWERED)
    parts = [key for key in row if key.strip().casefold() in PARTS]
    if asked and answered and len(asked + parts + answered) > 2:
        got = ", ".join(map(repr, asked + parts + answered))
        choice = f"columns=prompt:{asked[0]},response:{answered[0]}"
        return f"expected a column of prompts and one of answers, got {got}: choose, as {choice}"
    # a prompt alone makes no tree
    near = max(FORMATS, key=lambda known: (_likeness(row, known), known.parse != _oasst))
    if not _likeness(row, near):
        mapped = "columns=prompt:NAME,response:NAME maps others"
        return f"no known format: expected the keys {_known_keys()}, got {keys}; {mapped}"
    missing = next(key for key in near.keys if key not in row)
    typo = get_close_matches(missing, [key for key in row if key not in near.keys], n=1)
    others = ", ".join(shown(key) for key in list(row)[:8] if key not in typo)
    beside = f" beside {others}" if others else ""
    got = f"{shown(typo[0])}{beside}" if typo else f"the keys {keys}"
    return f"no known format, the nearest is {near.name}: expected {missing!r}, got {got}"


_OTHER_PAIRS = (
    ("preferred", "dispreferred"),
    ("chosen_response", "rejected_response"),
    ("better", "worse"),
    ("good", "bad"),
    ("winner", "loser"),
    ("win", "lose"),
    ("accepted", "rejected"),
    ("positive", "negative"),
)
"""The same for a better and a worse answer."""


def _other_pair(row: Fields) -> str:
    """Returns a row's two keys that mean a better and a worse answer, if they are clear."""
    found = next((pair for pair in _OTHER_PAIRS if row.keys() >= {*pair}), ())
    return " and ".join(map(repr, found))


def _likeness(row: Fields, known: Format) -> float:
    alike = sum(
        1.0 if key in row else 0.9 * bool(get_close_matches(key, row)) for key in known.keys
    )
    return alike / len(known.keys)


def _known_keys() -> str:
    *most, last = (" and ".join(known.keys) for known in FORMATS)
    return f"{', '.join(most)} or {last}"


def _messages(row: Fields, source: str) -> list[Record]:
    turns = parse_chat(row["messages"], "messages")
    return [Record(source, "chat", messages=with_system(row, turns))]


def _sharegpt(row: Fields, source: str) -> list[Record]:
    turns = parse_chat(row["conversations"], "conversations")
    return [Record(source, "chat", messages=with_system(row, turns))]


def _optional(row: Fields, key: str) -> str:
    value = row.get(key)
    return "" if value is None else text_of(value, key)


def _oasst(row: Fields, source: str) -> list[Record]:
    root = row["prompt"]
    if not isinstance(root, dict):
        raise InputError(f"'prompt': expected a message, got {type_name(root)}")
    path = best_path(cast("Fields", root))
    if not path:
        raise InputError("no assistant turn: expected at least one to learn from")
    turns: object = [{"role": node.get("role"), "text": node.get("text")} for node in path]
    return [Record(source, "chat", messages=parse_chat(turns, "prompt"))]


def _prompt_completion(row: Fields, source: str) -> list[Record]:
    if isinstance(row["prompt"], list) and isinstance(row["completion"], list):
        return [Record(source, "chat", messages=with_system(row, _turns_apart(row)))]
    return [_pair(row, "completion", source)]


def _prompt_response(row: Fields, source: str) -> list[Record]:
    return [_pair(row, "response", source)]


def _pair(row: Fields, answer: str, source: str) -> Record:
    prompt = text_of(row["prompt"], "prompt")
    completion = text_of(row[answer], answer)
    _refuse_empty(prompt, completion)
    return Record(source, "completion", with_system(row, ()), prompt, completion)


def _question_answer(row: Fields) -> Format | None:
    """Returns the format of a row with one key that means a prompt and one that means its answer.

    With more of them, or with another part of the prompt, either could be meant.
    """
    asked, answered = _named(row, ASKED), _named(row, ANSWERED)
    others = row.keys() - {*asked, *answered}
    misspelt = any(
        get_close_matches(key, others, n=1, cutoff=0.8) for known in FORMATS for key in known.keys
    )
    parts = {key.strip().casefold() for key in row} & PARTS
    if (len(asked), len(answered)) != (1, 1) or misspelt or parts:
        return None
    keys = (asked[0], answered[0])
    return Format(QUESTION_ANSWER, keys, partial(_answered, keys), _BESIDE)


def _named(row: Fields, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in row]


def _answered(keys: tuple[str, str], row: Fields, source: str) -> list[Record]:
    prompt, completion = (text_of(row[key], key) for key in keys)
    _refuse_empty(prompt, completion)
    before = with_system(row, ())
    return [Record(source, "completion", before, prompt, completion, joint=BLANK_LINE)]


def _turns_apart(row: Fields) -> tuple[Message, ...]:
    """Returns the turns of a prompt and a completion given as lists; only the second is learned."""
    before = parse_turns(row["prompt"], "prompt")
    read = tuple(replace(turn, learned=False) for turn in before)
    turns = (*read, *parse_turns(row["completion"], "completion"))
    require_answer(turns)
    return turns


def _refuse_empty(prompt: str, completion: str) -> None:
    if not prompt.strip() and not completion.strip():
        raise InputError("empty prompt and completion: expected text in at least one")


def _alpaca(row: Fields, source: str) -> list[Record]:
    before = with_system(row, _history(row))
    return [_instruction(row, row, source, before)]


def _dolly(row: Fields, source: str) -> list[Record]:
    case: Fields = {"input": row.get("context"), "output": row["response"]}
    return [_instruction(row, case, source, with_system(row, ()))]


def _self_instruct(row: Fields, source: str) -> list[Record]:
    instances = row["instances"]
    if not isinstance(instances, list):
        raise InputError(f"'instances': expected a list, got {type_name(instances)}")
    known = cast("list[object]", instances)
    if not known or not all(isinstance(one, dict) and "output" in one for one in known):
        raise InputError("'instances': expected a list of objects with 'output'")
    before = with_system(row, ())
    return [_instruction(row, one, source, before) for one in cast("list[Fields]", known)]


def _instruction(row: Fields, case: Fields, source: str, before: tuple[Message, ...]) -> Record:
    parts = (text_of(row["instruction"], "instruction"), _optional(case, "input"))
    prompt = BLANK_LINE.join(part for part in parts if part.strip())
    completion = text_of(case["output"], "output")
    _refuse_empty(prompt, completion)
    return Record(source, "completion", before, prompt, completion, joint=BLANK_LINE)


def _history(row: Fields) -> tuple[Message, ...]:
    history = row.get("history") or []
    if not isinstance(history, list):
        raise InputError(f"'history': expected a list of pairs, got {type_name(history)}")
    turns: list[Message] = []
    for index, pair in enumerate(cast("list[object]", history)):
        if not isinstance(pair, list) or len(cast("list[object]", pair)) != 2:
            raise InputError(f"history[{index}]: expected a pair of prompt and answer")
        asked, answered = (
            text_of(part, f"history[{index}]") for part in cast("list[object]", pair)
        )
        turns += [Message("user", asked), Message("assistant", answered)]
    return tuple(turns)


def _text(row: Fields, source: str) -> list[Record]:
    text = text_of(row["text"], "text")
    if not text.strip():
        raise InputError("'text' is empty: expected text")
    return [Record(source, "text", text=text, ends=True)]


_CHATS = ("OpenAI messages", "ShareGPT")
_BESIDE = (*SYSTEM_KEYS, *MEDIA_KEYS, *LABELS, *TOOLS_KEYS)

FORMATS = (
    Format("OpenAI messages", ("messages",), _messages, _BESIDE),
    Format("ShareGPT", ("conversations",), _sharegpt, _BESIDE),
    Format("OASST tree", ("message_tree_id", "prompt"), _oasst, ("tree_state", *MEDIA_KEYS)),
    Format("prompt/completion", ("prompt", "completion"), _prompt_completion, _BESIDE),
    Format("alpaca", ("instruction", "output"), _alpaca, (*_BESIDE, "input", "history")),
    Format("self-instruct", ("instruction", "instances"), _self_instruct, _BESIDE),
    Format("dolly", ("instruction", "response"), _dolly, (*_BESIDE, "context")),
    Format("prompt/response", ("prompt", "response"), _prompt_response, _BESIDE),
    Format("text", ("text",), _text),
)
"""All known formats."""

QUESTION_ANSWER = "question/answer"
"""The name of the format of rows with other names of a prompt and its answer."""

READS = {known.name: known.reads for known in FORMATS} | {
    QUESTION_ANSWER: frozenset((*ASKED, *ANSWERED, *_BESIDE))
}
"""Name of a format -> all keys that it reads."""
