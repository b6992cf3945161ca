"""Parses chat rows: the turns of OpenAI `messages`, ShareGPT `conversations` and their variants.

A tool's result is a turn of the role `tool`, `function` or `observation`; `tools.py` parses the
calls of tools.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from zoo.gym.data.reading.turns.tools import (
    CALL_ROLE,
    RESULT_KEYS,
    calls_in_text,
    parse_calls,
    require_calls,
)
from zoo.gym.data.reading.turns.values import (
    list_of,
    shown,
    text_of,
    type_name,
    word_of,
    wrong_type,
)
from zoo.gym.data.records import Message, split_thinking
from zoo.gym.errors import InputError

ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "model", CALL_ROLE), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
"""Names of roles in data files -> the role of `Message`."""

ROLE_KEYS = ("role", "from")
CONTENT_KEYS = ("content", "value", "text")
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
MEDIA_KEYS = ("images", "image", "image_url", "videos", "video", "audios", "audio")

WEIGHT_KEYS = ("weight", "loss_weight")

FLAG_KEYS = ("train", "learn", "trainable", "training", "loss")
"""Keys with true or false: whether something is learned."""


def parse_chat(value: object, key: str) -> tuple[Message, ...]:
    """Returns the turns of a chat, without empty system turns.

    Args:
        value: a list of messages, `role` and `content` or `from` and `value`.

    Raises:
        InputError: it is not a list of messages, a role is unknown, the chat starts with the
            assistant, or all turns are empty.
    """
    turns = parse_turns(value, key)
    if turns and turns[0].role == "assistant":
        raise InputError(
            f"{key!r} starts with an assistant turn: expected a user turn first",
            code="data.first_turn",
        )
    if not any(turn.content.strip() or turn.calls for turn in turns):
        raise InputError(f"{key!r} is empty: expected turns with text", code="data.empty_row")
    require_answer(turns)
    return turns


def require_answer(turns: Sequence[Message]) -> None:
    """Refuses a chat without a turn to learn, or with tool turns that answer no call.

    Raises:
        InputError: there is no assistant turn, or none is to be learned, or a tool turn follows
            neither a call nor another tool turn.
    """
    require_calls(turns)
    answers = [turn for turn in turns if turn.role == "assistant"]
    if not answers:
        raise InputError(
            "no assistant turn: expected at least one to learn from", code="data.no_answer"
        )
    if not any(turn.learned for turn in answers):
        raise InputError(
            "no assistant turn to learn: every one has weight 0", code="data.row_excluded"
        )


def parse_turns(value: object, key: str) -> tuple[Message, ...]:
    """Returns the turns of a list of messages, in any order of roles.

    Raises:
        InputError: it is not a list of messages, or a role is unknown.
    """
    parts = list_of(value, repr(key), "a list of messages")
    turns = [_message(part, f"{key}[{index}]") for index, part in enumerate(parts)]
    return tuple(turn for turn in turns if turn.role != "system" or turn.content.strip())


def _message(fields: object, where: str) -> Message:
    if not isinstance(fields, dict):
        raise wrong_type(where, "a message", fields)
    word = _role(fields, where)
    role = ROLES[word]
    refuse_media(fields, f"{where}.")
    calls = parse_calls(fields, where)
    if calls and (role != "assistant" or word == CALL_ROLE):
        raise InputError(
            f"{where}: tool calls of the role {word}: expected an assistant turn",
            code="data.tool_call",
        )
    content = ""
    if not calls or any(fields.get(key) is not None for key in CONTENT_KEYS):
        key = _first_key(fields, CONTENT_KEYS, where)
        content = text_of(fields[key], f"{where}.{key}")
    learned = _is_learned(fields, where)
    if role == "tool":
        tool, call_id = (word_of(fields, key, where) for key in RESULT_KEYS)
        return Message(role, content, tool=tool, call_id=call_id)
    if role != "assistant":
        return Message(role, content)
    thoughts = [fields[key] for key in REASONING_KEYS if fields.get(key) is not None]
    if thoughts:
        reasoning: str | None = text_of(thoughts[0], f"{where} reasoning").strip("\n")
    else:
        reasoning, content = split_thinking(content)
    if word == CALL_ROLE:
        calls, content = calls_in_text(content, where), ""
    return Message(role, content, reasoning, learned=learned, calls=calls)


def refuse_media(fields: Mapping[str, object], where: str = "") -> None:
    """Refuses a row or a message with images, audio or video, which are not supported.

    Raises:
        InputError: there is such a key.
    """
    for key in MEDIA_KEYS:
        if fields.get(key):
            raise InputError(
                f"'{where}{key}': images, audio and video are not supported: expected only text",
                code="data.media",
            )


def _role(fields: dict[str, object], where: str) -> str:
    """Returns the role of a turn as the data names it; one of `ROLES`."""
    role = fields[_first_key(fields, ROLE_KEYS, where)]
    if not isinstance(role, str):
        raise wrong_type(where, "a role in words", role)
    if role not in ROLES:
        raise InputError(
            f"{where}: unknown role {shown(role)}: expected system, user, assistant or tool",
            code="data.unknown_role",
        )
    return role


def _first_key(fields: dict[str, object], keys: tuple[str, ...], where: str) -> str:
    for key in keys:
        if key in fields:
            return key
    near = [shown(key) for key in fields if get_close_matches(key, keys, n=1)]
    names = ", ".join(shown(key) for key in list(fields)[:8]) or "of an empty object"
    got = near[0] if near else f"the keys {names}"
    raise InputError(f"{where}: expected {keys[0]!r}, got {got}", code="data.missing_key")


def flags_of(fields: Mapping[str, object], where: str) -> set[bool]:
    """Returns whether the true-or-false keys of a turn say that it is learned; empty without any.

    Raises:
        InputError: such a key is neither true nor false, they disagree, or the turn has a
            `mask`, which means learned in some data and excluded in other data.
    """
    if fields.get("mask") is not None:
        raise InputError(
            f"{where}: 'mask' is ambiguous: expected 'weight', 0 or 1", code="data.ambiguous_mask"
        )
    flags = {key: fields[key] for key in FLAG_KEYS if fields.get(key) is not None}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(
                f"{where}: {key!r}: expected true or false, or 'weight' 0 or 1",
                code="data.bad_flag",
            )
    if len(set(flags.values())) > 1:
        raise InputError(
            f"{where}: both true and false: expected only 'weight', 0 or 1",
            code="data.contradictory_flags",
        )
    return {value is True for value in flags.values()}


def _is_learned(fields: dict[str, object], where: str) -> bool:
    learned = flags_of(fields, where)
    for weight in (fields[key] for key in WEIGHT_KEYS if fields.get(key) is not None):
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or weight not in {0, 1}:
            got = f"{weight:g}" if is_number else type_name(weight)
            raise InputError(f"{where}: weight: expected 0 or 1, got {got}", code="data.bad_weight")
        learned.add(weight == 1)
    if len(learned) > 1:
        raise InputError(
            f"{where}: contradictory: expected only 'weight', 0 or 1",
            code="data.contradictory_flags",
        )
    return learned != {False}
