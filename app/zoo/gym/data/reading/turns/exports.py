"""Reads conversations of the exports of ChatGPT and Claude as chats.

Of ChatGPT's tree of messages the branch that was shown is read. What a model cannot learn from the
text alone is left out and counted: calls of tools and what they returned, hidden turns, reasoning.
A conversation with images or other files is refused, as its answers are about them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import cast

from zoo.gym.data.reading.turns.chat import ROLES
from zoo.gym.data.reading.turns.values import object_of, shown, type_name
from zoo.gym.errors import InputError

Fields = Mapping[str, object]
Turns = Iterator[tuple[str, str]]

_CITED = re.compile("\ue200[^\ue201]*\ue201")
"""A mark of ChatGPT for a source, in characters for private use."""

BETWEEN = "\n\n"
"""The separator of parts of one turn, such as those around a call of a tool."""


@dataclass(frozen=True)
class Export:
    """The export of an application.

    Attributes:
        name: of the format, for the user.
        keys: a row with all of these keys is one of its conversations.
        turns: conversation, counts of what is left out -> role and text of each turn.
    """

    name: str
    keys: tuple[str, ...]
    turns: "Callable[[Fields, Counter[str]], Turns]"


def export_of(value: object) -> Export | None:
    """Returns the export that a decoded row is a conversation of, or None."""
    if not isinstance(value, dict):
        return None
    return next((known for known in EXPORTS if all(key in value for key in known.keys)), None)


def chat_of(row: Fields, export: Export) -> "tuple[dict[str, object], Counter[str]]":
    """Returns a conversation as a row with `messages`, and how much of what is left out.

    Raises:
        InputError: the conversation is malformed, or has files.
    """
    dropped = Counter[str]()
    texts = ((ROLES.get(role, role), text.strip()) for role, text in export.turns(row, dropped))
    turns = [(role, text) for role, text in texts if text or _counted(dropped, "empty turn")]
    return {"messages": joined(turns, BETWEEN)}, dropped


def joined(turns: list[tuple[str, str]], between: str) -> list[dict[str, str]]:
    """Returns turns as messages; successive ones of one role are one."""
    runs = groupby(turns, key=itemgetter(0))
    return [{"role": role, "content": between.join(text for _, text in run)} for role, run in runs]


def _counted(dropped: "Counter[str]", what: str) -> bool:
    dropped[what] += 1
    return False


def _chatgpt(row: Fields, dropped: "Counter[str]") -> Turns:
    for message in _branch(row):
        author = object_of(message.get("author"), "author")
        content = object_of(message.get("content"), "content")
        metadata = object_of(message.get("metadata") or {}, "metadata")
        kind = content.get("content_type")
        hidden = metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0
        if hidden or author.get("role") == "system":
            dropped["hidden turn"] += 1
        elif author.get("role") == "tool" or message.get("recipient", "all") != "all":
            _parts(content.get("parts"))  # refuses an image that the next answers are about
            dropped["tool turn"] += 1
        elif kind in ("thoughts", "reasoning_recap"):
            dropped["reasoning turn"] += 1
        elif kind in ("text", "multimodal_text"):
            yield str(author.get("role")), _parts(content.get("parts"))
        else:
            dropped["tool turn"] += 1


def _branch(row: Fields) -> list[Fields]:
    """Returns the messages from the first one to the last that was shown."""
    nodes = object_of(row["mapping"], "mapping")
    path: list[Fields] = []
    key, left = row["current_node"], set(nodes)
    while key is not None:
        if not isinstance(key, str) or key not in left:
            got = shown(key) if isinstance(key, str) else type_name(key)
            raise InputError(f"'mapping': expected a tree of messages, got no node {got}")
        left.remove(key)  # a node that is its own parent would never end
        node = object_of(nodes[key], f"mapping[{shown(key)}]")
        if node.get("message") is not None:
            path.append(object_of(node["message"], "message"))
        key = node.get("parent")
    return path[::-1]


def _parts(parts: object) -> str:
    listed = cast("list[object]", parts) if isinstance(parts, list) else []
    if not all(isinstance(part, str) for part in listed):
        raise InputError("images, audio and video are not supported: expected only text")
    return _CITED.sub("", "".join(cast("list[str]", listed)))


def _claude(row: Fields, dropped: "Counter[str]") -> Turns:
    messages = row["chat_messages"]
    if not isinstance(messages, list):
        raise InputError(f"'chat_messages': expected a list, got {type_name(messages)}")
    listed = [
        object_of(value, f"chat_messages[{index}]")
        for index, value in enumerate(cast("list[object]", messages))
    ]
    for index, message in _last_branch(listed):
        where = f"chat_messages[{index}]"
        texts = [_text(part, where) for part in _listed(message, "attachments")]
        blocks = _listed(message, "content")
        for block in blocks:
            if block.get("type") == "text":
                texts.append(str(block.get("text") or ""))
            else:
                kind = "reasoning" if block.get("type") == "thinking" else "tool"
                dropped[f"{kind} part"] += 1
        if not blocks:
            texts.append(str(message.get("text") or ""))
        read = {part.get("file_name") for part in _listed(message, "attachments")}
        if any(part.get("file_name") not in read for part in _listed(message, "files")):
            raise InputError(f"{where}: files are not supported: expected only text")
        yield str(message.get("sender")), BETWEEN.join(filter(None, texts))


def _last_branch(messages: Sequence[Fields]) -> list[tuple[int, Fields]]:
    """Returns the messages that lead to the last one, with their places; all if none names one."""
    places = {
        uuid: place
        for place, message in enumerate(messages)
        if isinstance(uuid := message.get("uuid"), str)
    }
    parents = [places.get(str(message.get("parent_message_uuid"))) for message in messages]
    if all(parent is None for parent in parents):
        return list(enumerate(messages))
    branch: list[tuple[int, Fields]] = []
    place: int | None = len(messages) - 1
    while place is not None and (not branch or place < branch[-1][0]):
        branch.append((place, messages[place]))
        place = parents[place]
    return branch[::-1]


def _text(attachment: Fields, where: str) -> str:
    text = attachment.get("extracted_content")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: files are not supported: expected an attachment with its text")
    return text


def _listed(message: Fields, key: str) -> list[Fields]:
    found = message.get(key)
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return [object_of(part, key) for part in listed]


EXPORTS = (
    Export("ChatGPT export", ("mapping", "current_node"), _chatgpt),
    Export("Claude export", ("chat_messages",), _claude),
)
