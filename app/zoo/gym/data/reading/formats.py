"""Detects the format of each row by its keys and parses it; refuses unknown formats."""

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple, cast

from zoo.gym.data.reading.columns import ANSWERED, ASKED, PARTS
from zoo.gym.data.reading.keys import (
    LABELS,
    NEEDS_PREFERENCE,
    SYSTEM_KEYS,
    preference_keys,
    refuse_unlearnable,
    with_system,
)
from zoo.gym.data.reading.text import BLANK_LINE
from zoo.gym.data.reading.turns.chat import (
    MEDIA_KEYS,
    ROLE_KEYS,
    parse_chat,
    parse_turns,
    refuse_media,
    require_answer,
)
from zoo.gym.data.reading.turns.tools import TOOLS_KEYS, parse_tools
from zoo.gym.data.reading.turns.values import list_of, shown, text_of, type_name, wrong_type
from zoo.gym.data.records import Message, Record
from zoo.gym.errors import InputError

Fields = dict[str, object]


class Format(NamedTuple):
    """A format of rows.

    Attributes:
        keys: a row with all of these keys has this format.
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

    Raises:
        InputError: no known format, or something in the row is wrong; the message lacks the source.
    """
    if isinstance(value, str):
        return "text", _text({"text": value}, source)
    if not isinstance(value, dict):
        got = type_name(value)
        raise InputError(f"expected an object, got {got}", code="data.wrong_type")
    row = cast("Fields", value)
    try:
        return _parse(row, source)
    except InputError:
        if key := _rows_within(row):
            raise InputError(
                f"the rows are in a list under the key {shown(key)}: expected only that list, "
                "or one row per line",
                code="data.nested_rows",
            ) from None
        raise


def _parse(row: Fields, source: str) -> tuple[str, list[Record]]:
    form = _format_of(row)
    refuse_unlearnable(row, is_text=form.name == "text")
    if form.name != "text":
        refuse_media(row)
    records = form.parse(row, source)
    if form.reads.issuperset(TOOLS_KEYS) and (tools := parse_tools(row)):
        records = [replace(record, tools=tools) for record in records]
    return form.name, records


def formats_with_all(row: Fields) -> list[Format]:
    """Returns the formats that a row has all keys of, under just these names."""
    return [form for form in FORMATS if all(key in row for key in form.keys)]


def _rows_within(row: Fields) -> str | None:
    """Returns the key of a list of rows if a whole file of rows is wrapped in an object.

    Turns can have a text too: that alone does not make them rows.
    """
    for key, value in row.items():
        first = value[0] if isinstance(value, list) and value else None
        if not isinstance(first, dict):
            continue
        is_turn = any(key in form.reads for form in FORMATS) or any(
            name in first for name in ROLE_KEYS
        )
        if any(form.name != "text" or not is_turn for form in formats_with_all(first)):
            return key
    return None


def _format_of(row: Fields) -> Format:
    """Returns the format of a row; a key with value null counts only if no other format fits."""
    fits = [form for form in FORMATS if all(row.get(key) is not None for key in form.keys)]
    fits = fits or formats_with_all(row)[:1]
    if not fits and (pair := _question_answer(row)):
        return pair
    if not fits:
        raise InputError(_unknown(row), code="data.unknown_format")
    first, *rest = fits
    if first.name not in _CHATS:  # next to a pair, 'text' is the same rendered with a template
        rest = [form for form in rest if form.name != "text"]
    if rest:
        keys = " and ".join(" with ".join(map(repr, form.keys)) for form in (first, rest[0]))
        raise InputError(
            f"two formats in one row: expected one, got {keys}", code="data.two_formats"
        )
    return first


def _unknown(row: Fields) -> str:
    """Returns which keys a row has, which format is nearest, and which of its keys is missing."""
    if preferred := preference_keys(row):
        return f"preference data, with {preferred}: {NEEDS_PREFERENCE}"
    keys = ", ".join(shown(key) for key in list(row)[:8]) or "none"
    for pair in _OTHER_PAIRS:
        if row.keys() >= {*pair}:
            got = " and ".join(map(repr, pair))
            return f"no known format: expected 'chosen' and 'rejected', got {got}: rename the keys"
    asked, answered = _named(row, ASKED), _named(row, ANSWERED)
    parts = [key for key in row if key.strip().casefold() in PARTS]
    if asked and answered and len(asked + parts + answered) > 2:
        got = ", ".join(map(repr, asked + parts + answered))
        choice = f"columns=prompt:{asked[0]},response:{answered[0]}"
        return f"expected a column of prompts and one of answers, got {got}: choose, as {choice}"
    # a prompt alone makes no tree
    near = max(FORMATS, key=lambda form: (_likeness(row, form), form.parse != _oasst))
    if not _likeness(row, near):
        *most, last = (" and ".join(form.keys) for form in FORMATS)
        mapped = "columns=prompt:NAME,response:NAME maps others"
        expected = f"{', '.join(most)} or {last}"
        return f"no known format: expected the keys {expected}, got {keys}; {mapped}"
    missing = next(key for key in near.keys if key not in row)
    typo = get_close_matches(missing, [key for key in row if key not in near.keys], n=1)
    rest = ", ".join(shown(key) for key in list(row)[:8] if key not in typo)
    beside = f" beside {rest}" if rest else ""
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


def _likeness(row: Fields, form: Format) -> float:
    alike = (1.0 if key in row else 0.9 * bool(get_close_matches(key, row)) for key in form.keys)
    return sum(alike) / len(form.keys)


def _chat(key: str, row: Fields, source: str) -> list[Record]:
    return [Record(source, "chat", messages=with_system(row, parse_chat(row[key], key)))]


def _oasst(row: Fields, source: str) -> list[Record]:
    root = row["prompt"]
    if not isinstance(root, dict):
        raise wrong_type("'prompt'", "a message", root)
    path = best_path(cast("Fields", root))
    if not path:
        raise InputError(
            "no assistant turn: expected at least one to learn from", code="data.no_answer"
        )
    turns: object = [{"role": node.get("role"), "text": node.get("text")} for node in path]
    return [Record(source, "chat", messages=parse_chat(turns, "prompt"))]


def best_path(root: Fields) -> list[Fields]:
    """Returns the best-ranked path of an OpenAssistant tree that ends with an assistant turn.

    From each message the path continues with the reply of the lowest rank (0 is the best); replies
    without a rank come after ranked ones, equal ranks keep the order of the file; deleted ones are
    skipped. Everything after the last assistant turn is cut off.

    Returns:
        The messages from the root; empty if there is no assistant turn on the path.

    Raises:
        InputError: `replies` is not a list of objects.
    """
    path = [root]
    while replies := _replies(path[-1]):
        path.append(min(replies, key=_rank))
    while path and path[-1].get("role") != "assistant":
        path.pop()
    return path


def _replies(node: Fields) -> list[Fields]:
    replies = node.get("replies") or []
    if not isinstance(replies, list) or not all(isinstance(reply, dict) for reply in replies):
        raise InputError("'replies': expected a list of messages", code="data.wrong_type")
    return [reply for reply in cast("list[Fields]", replies) if not reply.get("deleted")]


def _rank(node: Fields) -> float:
    rank = node.get("rank")
    return rank if isinstance(rank, int | float) else float("inf")


def _prompt_completion(row: Fields, source: str) -> list[Record]:
    if isinstance(row["prompt"], list) and isinstance(row["completion"], list):
        # only the turns of the completion are learned
        turns = [replace(turn, learned=False) for turn in parse_turns(row["prompt"], "prompt")]
        turns += parse_turns(row["completion"], "completion")
        require_answer(turns)
        return [Record(source, "chat", messages=with_system(row, tuple(turns)))]
    return _pair("prompt", "completion", row, source)


def _pair(asked: str, answered: str, row: Fields, source: str, *, joint: str = "") -> list[Record]:
    prompt, completion = text_of(row[asked], asked), text_of(row[answered], answered)
    return [_completion(source, with_system(row, ()), prompt, completion, joint)]


def _completion(
    source: str, turns: tuple[Message, ...], prompt: str, completion: str, joint: str = BLANK_LINE
) -> Record:
    if not prompt.strip() and not completion.strip():
        raise InputError(
            "empty prompt and completion: expected text in at least one", code="data.empty_row"
        )
    return Record(source, "completion", turns, prompt, completion, joint=joint)


def _question_answer(row: Fields) -> Format | None:
    """Returns the format of a row with one key that means a prompt and one that means its answer.

    With more of them, or with another part of the prompt, the choice is ambiguous.
    """
    asked, answered = _named(row, ASKED), _named(row, ANSWERED)
    rest = row.keys() - {*asked, *answered}
    misspelt = any(
        get_close_matches(key, rest, n=1, cutoff=0.8) for form in FORMATS for key in form.keys
    )
    parts = {key.strip().casefold() for key in row} & PARTS
    if (len(asked), len(answered)) != (1, 1) or misspelt or parts:
        return None
    keys = (asked[0], answered[0])
    return Format(QUESTION_ANSWER, keys, partial(_pair, *keys, joint=BLANK_LINE), _BESIDE)


def _named(row: Fields, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in row]


def _alpaca(row: Fields, source: str) -> list[Record]:
    return [_instruction(row, row, source, with_system(row, _history(row)))]


def _dolly(row: Fields, source: str) -> list[Record]:
    case: Fields = {"input": row.get("context"), "output": row["response"]}
    return [_instruction(row, case, source, with_system(row, ()))]


def _self_instruct(row: Fields, source: str) -> list[Record]:
    cases = list_of(row["instances"], "'instances'")
    if not cases or not all(isinstance(case, dict) and "output" in case for case in cases):
        raise InputError(
            "'instances': expected a list of objects with 'output'", code="data.bad_instances"
        )
    system = with_system(row, ())
    return [_instruction(row, case, source, system) for case in cast("list[Fields]", cases)]


def _instruction(row: Fields, case: Fields, source: str, turns: tuple[Message, ...]) -> Record:
    parts = [text_of(row["instruction"], "instruction")]
    if case.get("input") is not None:
        parts.append(text_of(case["input"], "input"))
    prompt = BLANK_LINE.join(part for part in parts if part.strip())
    return _completion(source, turns, prompt, text_of(case["output"], "output"))


def _history(row: Fields) -> tuple[Message, ...]:
    history = list_of(row.get("history") or [], "'history'", "a list of pairs")
    turns: list[Message] = []
    for index, pair in enumerate(history):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(
                f"history[{index}]: expected a pair of prompt and answer", code="data.bad_history"
            )
        asked, answered = (text_of(part, f"history[{index}]") for part in pair)
        turns += [Message("user", asked), Message("assistant", answered)]
    return tuple(turns)


def _text(row: Fields, source: str) -> list[Record]:
    text = text_of(row["text"], "text")
    if not text.strip():
        raise InputError("'text' is empty: expected text", code="data.empty_row")
    return [Record(source, "text", text=text, ends=True)]


_CHATS = ("OpenAI messages", "ShareGPT")
_BESIDE = (*SYSTEM_KEYS, *MEDIA_KEYS, *LABELS, *TOOLS_KEYS)
_PROMPT_RESPONSE = ("prompt", "response")

FORMATS = (
    Format("OpenAI messages", ("messages",), partial(_chat, "messages"), _BESIDE),
    Format("ShareGPT", ("conversations",), partial(_chat, "conversations"), _BESIDE),
    Format("OASST tree", ("message_tree_id", "prompt"), _oasst, ("tree_state", *MEDIA_KEYS)),
    Format("prompt/completion", ("prompt", "completion"), _prompt_completion, _BESIDE),
    Format("alpaca", ("instruction", "output"), _alpaca, (*_BESIDE, "input", "history")),
    Format("self-instruct", ("instruction", "instances"), _self_instruct, _BESIDE),
    Format("dolly", ("instruction", "response"), _dolly, (*_BESIDE, "context")),
    Format("prompt/response", _PROMPT_RESPONSE, partial(_pair, *_PROMPT_RESPONSE), _BESIDE),
    Format("text", ("text",), _text),
)

QUESTION_ANSWER = "question/answer"
"""The name of the format of rows with other names of a prompt and its answer."""

READS = {form.name: form.reads for form in FORMATS} | {
    QUESTION_ANSWER: frozenset((*ASKED, *ANSWERED, *_BESIDE))
}
