"""Parses chat rows: the turns of OpenAI `messages`, ShareGPT `conversations` and their variants.

What a tool returned is a turn of the role `tool`, `function` or `observation`; calls of tools are
parsed by `tools.py`.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import cast

from zoo.gym.data.reading.turns.flags import FLAG_KEYS, WEIGHT_KEYS, learned_by_flags
from zoo.gym.data.reading.turns.tools import (
    CALL_ROLE,
    RESULT_KEYS,
    calls_in_text,
    parse_calls,
    require_calls,
)
from zoo.gym.data.reading.turns.values import shown, text_of, type_name, word_of
from zoo.gym.data.records import Message
from zoo.gym.data.rendering.thinking import split_thinking
from zoo.gym.errors import InputError

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    CALL_ROLE: "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}
"""Names of roles in data files -> the role of `Message`."""

ROLE_KEYS = ("role", "from")
CONTENT_KEYS = ("content", "value", "text")
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
MEDIA_KEYS = ("images", "image", "image_url", "videos", "video", "audios", "audio")


def parse_chat(value: object, key: str) -> tuple[Message, ...]:
    """Returns the turns of a chat, without empty system turns.

    Args:
        value: a list of messages, `role` and `content` or `from` and `value`.
        key: the row's key of the list.

    Raises:
        InputError: it is not a list of messages, a role is unknown, the chat starts with the
            assistant, or all turns are empty.
    """
    turns = parse_turns(value, key)
    if turns and turns[0].role == "assistant":
        raise InputError(f"{key!r} starts with an assistant turn: expected a user turn first")
    if not any(turn.content.strip() or turn.calls for turn in turns):
        raise InputError(f"{key!r} is empty: expected turns with text")
    require_answer(turns)
    return turns


def require_answer(turns: Sequence[Message]) -> None:
    """Refuses a chat in which nothing can be learned, or whose tool turns answer no call.

    Raises:
        InputError: there is no assistant turn, or none is to be learned, or a tool turn follows
            neither a call nor another tool turn.
    """
    require_calls(turns)
    answers = [turn for turn in turns if turn.role == "assistant"]
    if not answers:
        raise InputError("no assistant turn: expected at least one to learn from")
    if not any(turn.learned for turn in answers):
        raise InputError("no assistant turn to learn: every one has weight 0")


def parse_turns(value: object, key: str) -> tuple[Message, ...]:
    """Returns the turns of a list of messages, in any order of roles.

    Raises:
        InputError: it is not a list of messages, or a role is unknown.
    """
    if not isinstance(value, list):
        raise InputError(f"{key!r}: expected a list of messages, got {type_name(value)}")
    parts = cast("list[object]", value)
    turns = [_message(part, f"{key}[{index}]") for index, part in enumerate(parts)]
    return tuple(turn for turn in turns if turn.role != "system" or turn.content.strip())


def _message(value: object, where: str) -> Message:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a message, got {type_name(value)}")
    fields = cast("dict[str, object]", value)
    word = _role(fields, where)
    role = ROLES[word]
    refuse_media(fields, f"{where}.")
    calls = parse_calls(fields, where)
    if calls and (role != "assistant" or word == CALL_ROLE):
        raise InputError(f"{where}: tool calls of the role {word}: expected an assistant turn")
    content = _content(fields, where, optional=bool(calls))
    learned = _is_learned(fields, where)
    if role == "tool":
        tool, call_id = (word_of(fields, key, where) for key in RESULT_KEYS)
        return Message(role, content, tool=tool, call_id=call_id)
    if role != "assistant":
        return Message(role, content)
    given = next((fields[key] for key in REASONING_KEYS if fields.get(key) is not None), None)
    if given is None:
        reasoning, content = split_thinking(content)
    else:
        reasoning = text_of(given, f"{where} reasoning").strip("\n")
    if word == CALL_ROLE:
        calls, content = calls_in_text(content, where), ""
    return Message(role, content, reasoning, learned=learned, calls=calls)


def _content(fields: dict[str, object], where: str, *, optional: bool) -> str:
    """Returns the text of a turn; one with calls needs none."""
    if optional and all(fields.get(key) is None for key in CONTENT_KEYS):
        return ""
    key = _key(fields, CONTENT_KEYS, where)
    return text_of(fields[key], f"{where}.{key}")


def refuse_media(fields: Mapping[str, object], where: str = "") -> None:
    """Refuses a row or a message with images, audio or video, which are not supported.

    Raises:
        InputError: there is such a key.
    """
    for key in MEDIA_KEYS:
        if fields.get(key):
            raise InputError(
                f"'{where}{key}': images, audio and video are not supported: expected only text"
            )


def _role(fields: dict[str, object], where: str) -> str:
    """Returns the role of a turn as the data names it; one of `ROLES`."""
    role = fields[_key(fields, ROLE_KEYS, where)]
    if not isinstance(role, str):
        raise InputError(f"{where}: expected a role in words, got {type_name(role)}")
    if role not in ROLES:
        raise InputError(
            f"{where}: unknown role {shown(role)}: expected system, user, assistant or tool"
        )
    return role


def _key(fields: dict[str, object], known: tuple[str, ...], where: str) -> str:
    """Returns the first known key of a message."""
    for key in known:
        if key in fields:
            return key
    near = [key for key in fields if get_close_matches(key, known, n=1)]
    raise InputError(
        f"{where}: expected {known[0]!r}, got {shown(near[0])}"
        if near
        else f"{where}: expected {known[0]!r}, got the keys {_quoted(fields)}"
    )


def _quoted(fields: dict[str, object]) -> str:
    return ", ".join(shown(key) for key in list(fields)[:8]) or "of an empty object"


def _is_learned(fields: dict[str, object], where: str) -> bool:
    flag = learned_by_flags(fields, where)
    flagged = any(fields.get(key) is not None for key in FLAG_KEYS)
    learned = {flag} if flagged else set[bool]()
    for weight in (fields[key] for key in WEIGHT_KEYS if fields.get(key) is not None):
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise InputError(f"{where}: weight: expected 0 or 1, got {type_name(weight)}")
        if weight not in {0, 1}:
            raise InputError(f"{where}: weight: expected 0 or 1, got {weight:g}")
        learned.add(weight == 1)
    if len(learned) > 1:
        raise InputError(f"{where}: contradictory: expected only 'weight', 0 or 1")
    return learned != {False}
