"""The formats that are found by themselves, row by row, and what each row means."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from zoo.gym.data.chat import (
    parse_chat,
    parse_turns,
    refuse_media,
    require_answer,
    shown,
    text_of,
    type_name,
)
from zoo.gym.data.oasst import best_path
from zoo.gym.data.records import Message, Record
from zoo.gym.data.text import BLANK_LINE
from zoo.gym.errors import InputError

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of row.

    Attributes:
        name: as it is told to the user.
        keys: a row that has all of them is of this format.
        parse: row, source -> records.
    """

    name: str
    keys: tuple[str, ...]
    parse: Callable[[Fields, str], list[Record]]


def parse_row(value: object, source: str) -> tuple[str, list[Record]]:
    """Returns the name of a row's format, and its records.

    Args:
        value: a decoded JSON value; bare text is a text row.
        source: `file:line`.

    Raises:
        InputError: no known format, or something in the row is wrong; without the source.
    """
    if isinstance(value, str):
        return "text", _text({"text": value}, source)
    if not isinstance(value, dict):
        raise InputError(f"expected an object, got {type_name(value)}")
    row = cast("Fields", value)
    for known in FORMATS:
        if all(key in row for key in known.keys):
            if known.name != "text":
                refuse_media(row)
            return known.name, known.parse(row, source)
    raise InputError(_unknown(row))


def _unknown(row: Fields) -> str:
    """Says what the row has, which format is nearest, and what that one lacks."""
    keys = ", ".join(shown(key) for key in list(row)[:8]) or "none"
    near = max(FORMATS, key=lambda known: _likeness(row, known))
    if not _likeness(row, near):
        return f"no known format: expected the keys {_known_keys()}, got {keys}"
    missing = next(key for key in near.keys if key not in row)
    typo = get_close_matches(missing, [key for key in row if key not in near.keys], n=1)
    got = shown(typo[0]) if typo else f"the keys {keys}"
    return f"no known format, the nearest is {near.name}: expected {missing!r}, got {got}"


def _likeness(row: Fields, known: Format) -> float:
    alike = sum(
        1.0 if key in row else 0.9 * bool(get_close_matches(key, row)) for key in known.keys
    )
    return alike / len(known.keys)


def _known_keys() -> str:
    *most, last = (" and ".join(known.keys) for known in FORMATS)
    return f"{', '.join(most)} or {last}"


def _messages(row: Fields, source: str) -> list[Record]:
    _refuse_tools(row)
    return [Record(source, "chat", messages=parse_chat(row["messages"], "messages"))]


def _sharegpt(row: Fields, source: str) -> list[Record]:
    _refuse_tools(row)
    turns = parse_chat(row["conversations"], "conversations")
    return [Record(source, "chat", messages=(*_system(row), *turns))]


def _refuse_tools(row: Fields) -> None:
    if row.get("tools") or row.get("functions"):
        raise InputError("'tools': tool calls are not supported: expected turns of text")


def _system(row: Fields) -> tuple[Message, ...]:
    system = _optional(row, "system")
    return (Message("system", system),) if system.strip() else ()


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
        return [Record(source, "chat", messages=_turns_apart(row))]
    prompt = text_of(row["prompt"], "prompt")
    completion = text_of(row["completion"], "completion")
    _refuse_empty(prompt, completion)
    return [Record(source, "completion", prompt=prompt, completion=completion)]


def _turns_apart(row: Fields) -> tuple[Message, ...]:
    """A prompt and a completion that are lists of turns: only the second list is learned."""
    before = parse_turns(row["prompt"], "prompt")
    read = tuple(Message(t.role, t.content, t.reasoning, learned=False) for t in before)
    turns = (*read, *parse_turns(row["completion"], "completion"))
    require_answer(turns)
    return turns


def _refuse_empty(prompt: str, completion: str) -> None:
    if not prompt.strip() and not completion.strip():
        raise InputError("empty prompt and completion: expected text in at least one")


def _alpaca(row: Fields, source: str) -> list[Record]:
    return [_instruction(row, row, source, (*_system(row), *_history(row)))]


def _self_instruct(row: Fields, source: str) -> list[Record]:
    instances = row["instances"]
    if not isinstance(instances, list):
        raise InputError(f"'instances': expected a list, got {type_name(instances)}")
    known = cast("list[object]", instances)
    if not known or not all(isinstance(one, dict) and "output" in one for one in known):
        raise InputError("'instances': expected a list of objects with 'output'")
    return [_instruction(row, one, source, ()) for one in cast("list[Fields]", known)]


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
    return [Record(source, "text", text=text)]


FORMATS = (
    Format("OpenAI messages", ("messages",), _messages),
    Format("ShareGPT", ("conversations",), _sharegpt),
    Format("OASST tree", ("message_tree_id", "prompt"), _oasst),
    Format("prompt/completion", ("prompt", "completion"), _prompt_completion),
    Format("alpaca", ("instruction", "output"), _alpaca),
    Format("self-instruct", ("instruction", "instances"), _self_instruct),
    Format("text", ("text",), _text),
)
"""Every known format; the first whose keys a row has is the row's."""
