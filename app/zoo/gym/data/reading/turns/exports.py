"""Reads conversations of the exports of ChatGPT and Claude as chats.

Of ChatGPT's tree of messages, the branch that the user saw is read. What a model cannot learn from
the text alone is left out and counted: calls of tools and their results, hidden turns, reasoning.
A conversation with images or other files is refused, because its answers depend on them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from zoo.gym.data.reading.turns.chat import ROLES
from zoo.gym.data.reading.turns.values import described, list_of, object_of
from zoo.gym.errors import InputError

Fields = Mapping[str, object]
Turns = Iterator[tuple[str, str]]

_CITED = re.compile("\ue200[^\ue201]*\ue201")
"""A mark of ChatGPT for a source, in characters for private use."""

BETWEEN = "\n\n"
"""The separator of parts of one turn, such as those around a call of a tool."""


class Export(NamedTuple):
    """The export of an application.

    Attributes:
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
    return next((export for export in EXPORTS if all(key in value for key in export.keys)), None)


def chat_of(row: Fields, export: Export) -> "tuple[dict[str, object], Counter[str]]":
    """Returns a conversation as a row with `messages`, and counts of what is left out.

    Raises:
        InputError: the conversation is malformed, or has files.
    """
    dropped = Counter[str]()
    turns: list[tuple[str, str]] = []
    for role, text in export.turns(row, dropped):
        if text.strip():
            turns.append((ROLES.get(role, role), text.strip()))
        else:
            dropped["empty turn"] += 1
    return {"messages": joined(turns, BETWEEN)}, dropped


def joined(turns: list[tuple[str, str]], between: str) -> list[dict[str, str]]:
    """Returns turns as messages; joins successive turns of one role."""
    runs = groupby(turns, key=itemgetter(0))
    return [{"role": role, "content": between.join(text for _, text in run)} for role, run in runs]


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
            raise InputError(
                f"'mapping': expected a tree of messages, got no node {described(key)}",
                code="data.export_tree",
            )
        left.remove(key)  # a node that is its own parent would never end
        node = object_of(nodes[key], f"mapping[{described(key)}]")
        if node.get("message") is not None:
            path.append(object_of(node["message"], "message"))
        key = node.get("parent")
    return path[::-1]


def _parts(parts: object) -> str:
    texts = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    if isinstance(parts, list) and len(texts) < len(parts):
        raise InputError(
            "images, audio and video are not supported: expected only text", code="data.media"
        )
    return _CITED.sub("", "".join(texts))


def _claude(row: Fields, dropped: "Counter[str]") -> Turns:
    values = enumerate(list_of(row["chat_messages"], "'chat_messages'"))
    messages = [object_of(value, f"chat_messages[{index}]") for index, value in values]
    for index in _last_branch(messages):
        message, where = messages[index], f"chat_messages[{index}]"
        attachments = _objects(message, "attachments")
        texts = [_text(attachment, where) for attachment in attachments]
        blocks = _objects(message, "content")
        for block in blocks:
            if block.get("type") == "text":
                texts.append(str(block.get("text") or ""))
            else:
                kind = "reasoning" if block.get("type") == "thinking" else "tool"
                dropped[f"{kind} part"] += 1
        if not blocks:
            texts.append(str(message.get("text") or ""))
        names = {attachment.get("file_name") for attachment in attachments}
        if any(file.get("file_name") not in names for file in _objects(message, "files")):
            raise InputError(
                f"{where}: files are not supported: expected only text", code="data.media"
            )
        yield str(message.get("sender")), BETWEEN.join(filter(None, texts))


def _last_branch(messages: Sequence[Fields]) -> Sequence[int]:
    """Returns the indices of the messages that lead to the last one; all if none has a parent."""
    indices = {
        uuid: index
        for index, message in enumerate(messages)
        if isinstance(uuid := message.get("uuid"), str)
    }
    parents = [indices.get(str(message.get("parent_message_uuid"))) for message in messages]
    if all(parent is None for parent in parents):
        return range(len(messages))
    branch: list[int] = []
    index: int | None = len(messages) - 1
    while index is not None and (not branch or index < branch[-1]):
        branch.append(index)
        index = parents[index]
    return branch[::-1]


def _text(attachment: Fields, where: str) -> str:
    text = attachment.get("extracted_content")
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"{where}: files are not supported: expected an attachment with its text",
            code="data.media",
        )
    return text


def _objects(message: Fields, key: str) -> list[dict[str, object]]:
    parts = message.get(key)
    return [object_of(part, key) for part in parts] if isinstance(parts, list) else []


EXPORTS = (
    Export("ChatGPT export", ("mapping", "current_node"), _chatgpt),
    Export("Claude export", ("chat_messages",), _claude),
)
