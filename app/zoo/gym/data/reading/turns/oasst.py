"""Parses OpenAssistant message trees: the best-ranked path from the root prompt to a reply."""

from collections.abc import Mapping
from typing import cast

from zoo.gym.errors import InputError

Node = Mapping[str, object]


def best_path(root: Node) -> list[Node]:
    """Returns the best-ranked path of a tree that ends with an assistant turn.

    From each message the path continues with the reply of the lowest rank (0 is the best); replies
    without a rank come after ranked ones, equal ranks keep the order of the file; deleted ones are
    skipped. Everything after the last assistant turn is cut off.

    Args:
        root: the tree's first message.

    Returns:
        The messages from the root; empty if there is no assistant turn on the path.

    Raises:
        InputError: `replies` is not a list of objects.
    """
    path: list[Node] = [root]
    while replies := _replies(path[-1]):
        path.append(min(replies, key=_rank))
    while path and path[-1].get("role") != "assistant":
        path.pop()
    return path


def _replies(node: Node) -> list[Node]:
    replies = node.get("replies") or []
    if not isinstance(replies, list):
        raise InputError("'replies': expected a list of messages")
    known = cast("list[object]", replies)
    if not all(isinstance(reply, dict) for reply in known):
        raise InputError("'replies': expected a list of messages")
    return [reply for reply in cast("list[Node]", known) if not reply.get("deleted")]


def _rank(node: Node) -> float:
    rank = node.get("rank")
    return rank if isinstance(rank, int | float) else float("inf")
