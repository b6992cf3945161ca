"""Tool calls: whether a model calls the expected tools with the expected arguments.

A row has the turns, the definitions of tools, and the calls as its answer, none for a question that
needs no tool. Arguments are compared as JSON values; calls in their order.
"""

import json
from collections.abc import Sequence
from typing import cast

from zoo.gym.data.reading.turns.chat import parse_turns
from zoo.gym.data.reading.turns.tools import parse_calls, parse_tools
from zoo.gym.errors import InputError
from zoo.gym.evaluate.items import Item, Line
from zoo.gym.evaluate.tasks.spec import Fields, Row, Spec


def tools_row(row: Fields) -> Row:
    """Returns a chat with tools, and the expected calls."""
    turns = parse_turns(row["messages"], "messages")
    tools = parse_tools({"tools": row["tools"]})
    answer = row["answer"]
    if not tools:
        raise InputError("tools: expected at least one definition", code="evaluate.bad_row")
    if not isinstance(answer, list):
        raise InputError("answer: expected a list of calls", code="evaluate.bad_row")
    calls = parse_calls({"tool_calls": answer}, "answer")
    expected = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
    if not turns or turns[-1].role not in ("user", "tool"):
        raise InputError("messages: expected a user turn at the end", code="evaluate.bad_row")
    return Row("", turns[-1].content, turns=tuple(turns), tools=tools, answer=expected)


def same_calls(items: Sequence[Item], lines: Sequence[Line]) -> list[float]:
    """Returns 1 for each answer with exactly the expected calls."""
    scores: list[float] = []
    for item, line in zip(items, lines, strict=True):
        expected = [_plain(call) for call in cast("list[object]", item.task.answer)]
        got = [_plain(call) for call in cast("list[object]", line.get("calls") or [])]
        scores.append(float("error" not in line and got == expected))
    return scores


def _plain(call: object) -> tuple[str, str]:
    """Returns a call as a name and a JSON text of its arguments."""
    fields = cast("dict[str, object]", call)
    return str(fields["name"]), json.dumps(fields.get("arguments") or {}, sort_keys=True)


TOOLS = Spec(
    name="tools",
    files=("tools*.jsonl",),
    form="rows of messages, tools and answer (a list of calls with name and arguments)",
    read=tools_row,
    how="generate",
    grade=same_calls,
    graded_by="1 if the calls and their arguments are those of the row",
    has_shots=False,
)
