"""Markers: private-use characters that show where a template writes the texts of a chat.

They are placed inside the outer whitespace of a text, so that a template that strips text gives the
same result with and without them. In calls they are around the name and in every key and text of
the arguments; in definitions of tools before the name.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.data.rendering.special import SpecialTokens
from zoo.gym.errors import InputError

_PRIVATE_USE = range(0xF0000, 0x10E000)
MARKS = re.compile("[\U000f0000-\U0010dfff]")
"""Matches a marker, and such a character in the data."""

Change = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class TurnMarks:
    """The markers in one turn.

    Attributes:
        text: before and after its text; None in a turn of calls without text.
        names: before and after the name of each call.
        arguments: in each key and text of the arguments of its calls.
        times: the number of these keys and texts.
    """

    text: tuple[str, str] | None
    names: tuple[tuple[str, str], ...] = ()
    arguments: str = ""
    times: int = 0

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The markers that are in pairs."""
        return (*((self.text,) if self.text else ()), *self.names)

    def span(self, first: Mapping[str, int], last: Mapping[str, int]) -> tuple[int, int]:
        """Returns the positions of the turn's first marker and of its last.

        Args:
            first: the first position of each marker. A template may repeat a name later.
            last: the last position of each marker.
        """
        opens = min(first[opening] for opening, _ in self.pairs)
        closes = max(first[closing] for _, closing in self.pairs)
        return opens, max(closes, last.get(self.arguments, closes))


def free_characters(messages: Sequence[Message], tools: Tools) -> Iterator[str]:
    """Yields the private-use characters that a chat does not contain.

    Raises:
        InputError: there are no more.
    """
    used = set(MARKS.findall(_json(tools)))
    for turn in messages:
        calls = [[call.name, call.arguments, call.id] for call in turn.calls]
        for text in (turn.content, turn.reasoning or "", turn.tool, turn.call_id, _json(calls)):
            used.update(MARKS.findall(text))
    yield from (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
    raise InputError(
        "expected text with fewer private-use characters: none is left for markers",
        code="data.private_use",
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _changed(value: object, of_key: Change, of_text: Change) -> object:
    """Returns a JSON value with the keys of its objects, and its texts, changed."""
    if isinstance(value, str):
        return of_text(value)
    if isinstance(value, dict):
        return _changed_object(value, of_key, of_text)
    if isinstance(value, list):
        return [_changed(part, of_key, of_text) for part in value]
    return value


def _changed_object(
    fields: Mapping[str, object], of_key: Change, of_text: Change
) -> dict[str, object]:
    return {of_key(key): _changed(part, of_key, of_text) for key, part in fields.items()}


def hider(specials: SpecialTokens | None, hidden: dict[str, str], free: Iterator[str]) -> Change:
    """Returns a function that replaces each special token in a text with a private-use character.

    Args:
        specials: the special tokens; None leaves texts as they are.
        hidden: special token -> its character; the function adds those that it meets.
    """
    if specials is None:
        return lambda text: text

    def stand_in(match: re.Match[str]) -> str:
        if match[0] not in hidden:
            hidden[match[0]] = next(free)
        return hidden[match[0]]

    return partial(specials.pattern.sub, stand_in)


def hidden_turn(message: Message, hide: Change) -> Message:
    """Returns a turn with each of its texts changed."""
    return replace(
        message,
        content=hide(message.content),
        reasoning=None if message.reasoning is None else hide(message.reasoning),
        calls=tuple(
            Call(hide(call.name), _changed_object(call.arguments, hide, hide), hide(call.id))
            for call in message.calls
        ),
        tool=hide(message.tool),
        call_id=hide(message.call_id),
    )


def hidden_tools(tools: Tools, hide: Change) -> Tools:
    """Returns definitions of tools with each of their texts changed."""
    return [_changed_object(tool, hide, hide) for tool in tools]


def mark_turn(message: Message, free: Iterator[str], fence: str) -> tuple[Message, TurnMarks]:
    """Returns a turn with markers, and these.

    Args:
        fence: the character around reasoning.
    """
    pair, marked = None, message
    if message.content.strip() or not message.calls:
        pair = next(free), next(free)
        marked = replace(message, content=_inside(message.content, *pair))
    if message.reasoning and message.reasoning.strip():
        marked = replace(marked, reasoning=_inside(message.reasoning, fence, fence))
    if not message.calls:
        return marked, TurnMarks(pair)
    names = tuple((next(free), next(free)) for _ in message.calls)
    mark = next(free)
    # before keys, so that they are still sorted in the same order
    mark_key, mark_text = mark.__add__, lambda text: text + mark if text else text
    calls = tuple(
        replace(
            call,
            name=_inside(call.name, *name),
            arguments=_changed_object(call.arguments, mark_key, mark_text),
        )
        for call, name in zip(message.calls, names, strict=True)
    )
    times = sum(_json(call.arguments).count(mark) for call in calls)
    return replace(marked, calls=calls), TurnMarks(pair, names, mark, times)


def _inside(text: str, opening: str, closing: str) -> str:
    lead, body, trail = outer_space(text)
    return f"{lead}{opening}{body}{closing}{trail}"


def outer_space(content: str) -> tuple[str, str, str]:
    """Returns the whitespace before a text, the text, and the whitespace after it."""
    body = content.strip()
    at = content.index(body) if body else len(content)
    return content[:at], body, content[at + len(body) :]


def mark_tools(tools: Tools, free: Iterator[str]) -> tuple[Tools, list[str]]:
    """Returns definitions of tools with a marker before each name, and these."""
    marks = [next(free) for _ in tools]
    functions = [cast("Mapping[str, object]", tool["function"]) for tool in tools]
    marked = [
        {**tool, "function": {**function, "name": f"{mark}{function['name']}"}}
        for tool, function, mark in zip(tools, functions, marks, strict=True)
    ]
    return marked, marks


def refuse_lost(
    text: str, messages: Sequence[Message], marks: Sequence[TurnMarks], of_tools: Sequence[str]
) -> None:
    """Refuses a render without a turn, a call or a tool, or with one of them twice.

    Raises:
        InputError: there is one.
    """
    times = Counter(MARKS.findall(text))
    if not all(times[mark] for mark in of_tools):
        raise InputError(
            "the chat template leaves out the tools: expected each of them in it",
            code="data.lost_tools",
        )
    for index, (message, of_turn) in enumerate(zip(messages, marks, strict=True)):
        turn = f"turn {index + 1} ({message.role})"
        of_text = {times[mark] for mark in of_turn.text or ()}
        if of_text - {1}:
            verb = "leaves out" if of_text == {0} else "rewrites"
            raise InputError(f"the chat template {verb} {turn}", code="data.rewritten_turn")
        named = all(times[mark] for pair in of_turn.names for mark in pair)
        inside = times[of_turn.arguments] if of_turn.arguments else 0
        if not named or inside != of_turn.times:
            verb = "rewrites" if named and inside > of_turn.times else "leaves out"
            raise InputError(
                f"the chat template {verb} the tool calls of {turn}", code="data.rewritten_calls"
            )
