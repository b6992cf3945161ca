"""Renders a chat with markers around the text of every turn, to locate each turn.

Markers are private-use characters that the data does not contain. They are placed inside the outer
whitespace of a text, so that a template that strips text gives the same result with and without
them. In calls they are around the name and in every key and text of the arguments; in definitions
of tools before the name. Special tokens in the data are replaced by other such characters until the
chat is rendered, so that every special token in the render is the template's own.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, cast

from zoo.gym.data.records import Call, Message, Tools
from zoo.gym.data.rendering.special import SpecialTokens
from zoo.gym.data.rendering.template import Chat, ChatTemplate, render, render_all
from zoo.gym.errors import InputError

EAGER_TURNS = 128
"""Chats up to this many turns are rendered together with every generation prompt."""

MOST_TURNS = 40_000
"""Two markers per turn must fit in the private-use characters."""

_PRIVATE_USE = range(0xF0000, 0x10E000)
_MARKS = re.compile("[\U000f0000-\U0010dfff]")
"""Matches a marker, and such a character in the data."""

Change = Callable[[str], str]


class TurnMarks(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Marked:
    """A chat rendered with markers.

    Attributes:
        chat: the turns and tools as rendered: with markers, special tokens hidden.
        thoughts: the reasoning of each turn in the same form, whether `chat` has it or not.
        text: the rendered chat; if `plain`, with substitutes for the template's special tokens.
        opens: the position of the first marker of each turn: before its text, or of a call without
            text before its name.
        closes: the position of its last marker: after its text, or in its last call.
        prompts: renders that end with the prompt for a turn, by its index; those of long chats
            are rendered when they are needed.
        plain: the data contains special tokens as text: see `SpecialTokens.tokenise`.
    """

    template: ChatTemplate
    chat: Chat
    thoughts: tuple[str | None, ...]
    text: str
    opens: tuple[int, ...]
    closes: tuple[int, ...]
    prompts: Mapping[int, str] = field(repr=False)
    plain: bool
    _replaced: Mapping[int, str | None] = field(repr=False)

    def clean(self, start: int, stop: int) -> str:
        """Returns a part of the text without markers and with hidden tokens restored."""
        return self.text[start:stop].translate(self._replaced)

    def in_form(self, text: str) -> str:
        """Returns our own text in the form of the chat; its special tokens are real."""
        return self._stood_in(text).translate(self._replaced)

    def _stood_in(self, text: str) -> str:
        specials = self.template.specials
        return specials.stood_in(text) if self.plain and specials else text

    def prompt_after(self, index: int) -> str | None:
        """Returns what a generation prompt appends to a turn, None if the turn is not in it."""
        text = self.prompts.get(index + 1)
        if text is None:
            turns, tools = self.chat.messages[: index + 1], self.chat.tools
            text = render(self.template, turns, tools, generation_prompt=True)
        _, mark, opening = text.rpartition(self.text[self.closes[index]])
        return self._stood_in(opening) if mark else None


def render_marked(
    template: ChatTemplate,
    messages: Sequence[Message],
    bare: frozenset[int] = frozenset(),
    tools: Tools = (),
    *,
    generation_prompt: bool = False,
) -> Marked:
    """Renders a chat with markers.

    Args:
        bare: indices of turns that are rendered without their reasoning.

    Raises:
        InputError: the template refuses the chat, or drops or rewrites a turn, a call or a tool.
    """
    if len(messages) > MOST_TURNS:
        raise InputError(
            f"expected a chat of at most {MOST_TURNS} turns, got {len(messages)}",
            code="data.long_chat",
        )
    free = _free_characters(messages, tools)
    hidden: dict[str, str] = {}
    hide = _hider(template.specials, hidden, free)
    plain = Chat([_hidden_turn(message, hide) for message in messages], _hidden_tools(tools, hide))
    fence = next(free)
    pairs = [_mark_turn(turn, free, fence) for turn in plain.messages]
    turns, marks = [turn for turn, _ in pairs], [of_turn for _, of_turn in pairs]
    marked_tools, of_tools = _mark_tools(plain.tools, free)
    marked = Chat(_without_reasoning(turns, bare), marked_tools)
    plain = Chat(_without_reasoning(plain.messages, bare), plain.tools)
    text, plain_text, prompts = _render_both(template, marked, plain, generation_prompt)
    _refuse_lost(text, plain.messages, marks, of_tools)
    every = {fence, *of_tools}
    for of_turn in marks:
        every.update(*of_turn.pairs, of_turn.arguments)
    replaced: dict[int, str | None] = {ord(mark): None for mark in every}
    if text.translate(replaced) != plain_text:
        raise InputError(
            "the chat template rewrites a turn: expected every turn unchanged",
            code="data.rewritten_turn",
        )
    replaced |= {ord(character): word for word, character in hidden.items()}
    is_plain = bool(hidden)
    if template.specials is not None:
        # data and adjacent template text may together form a special token
        find = template.specials.pattern.findall
        is_plain = is_plain or len(find(text)) != len(find(text.translate(replaced)))
        text = template.specials.stood_in(text) if is_plain else text
    positions = [(match[0], match.start()) for match in _MARKS.finditer(text)]
    first, last = dict(reversed(positions)), dict(positions)
    spans = [of_turn.span(first, last) for of_turn in marks]
    opens, closes = (tuple(span[side] for span in spans) for side in (0, 1))
    thoughts = tuple(turn.reasoning for turn in turns)
    return Marked(template, marked, thoughts, text, opens, closes, prompts, is_plain, replaced)


def _render_both(
    template: ChatTemplate, marked: Chat, plain: Chat, generation_prompt: bool
) -> tuple[str, str, dict[int, str]]:
    """Returns a chat with markers, without them, and the prompts for its turns with markers."""
    count = len(plain.messages)
    is_eager = count <= EAGER_TURNS and not generation_prompt
    answers = [
        index
        for index, message in enumerate(plain.messages)
        if is_eager and index and message.role == "assistant"
    ]
    renders = [(0, count, generation_prompt), (1, count, generation_prompt)]
    renders += [(0, index, True) for index in answers]
    text, plain_text, *prompts = render_all(template, [marked, plain], renders)
    return text, plain_text, dict(zip(answers, prompts, strict=True))


def _without_reasoning(messages: Sequence[Message], bare: frozenset[int]) -> tuple[Message, ...]:
    return tuple(
        replace(message, reasoning=None) if index in bare else message
        for index, message in enumerate(messages)
    )


def _free_characters(messages: Sequence[Message], tools: Tools) -> Iterator[str]:
    """Yields the private-use characters that a chat does not contain.

    Raises:
        InputError: there are no more.
    """
    used = set(_MARKS.findall(_json(tools)))
    for turn in messages:
        calls = [[call.name, call.arguments, call.id] for call in turn.calls]
        for text in (turn.content, turn.reasoning or "", turn.tool, turn.call_id, _json(calls)):
            used.update(_MARKS.findall(text))
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


def _hider(specials: SpecialTokens | None, hidden: dict[str, str], free: Iterator[str]) -> Change:
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


def _hidden_turn(message: Message, hide: Change) -> Message:
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


def _hidden_tools(tools: Tools, hide: Change) -> Tools:
    """Returns definitions of tools with each of their texts changed."""
    return [_changed_object(tool, hide, hide) for tool in tools]


def _mark_turn(message: Message, free: Iterator[str], fence: str) -> tuple[Message, TurnMarks]:
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
    mark_key = mark.__add__

    def mark_text(text: str) -> str:
        return text + mark if text else text

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


def _mark_tools(tools: Tools, free: Iterator[str]) -> tuple[Tools, list[str]]:
    """Returns definitions of tools with a marker before each name, and these."""
    marks = [next(free) for _ in tools]
    functions = [cast("Mapping[str, object]", tool["function"]) for tool in tools]
    marked = [
        {**tool, "function": {**function, "name": f"{mark}{function['name']}"}}
        for tool, function, mark in zip(tools, functions, marks, strict=True)
    ]
    return marked, marks


def _refuse_lost(
    text: str, messages: Sequence[Message], marks: Sequence[TurnMarks], of_tools: Sequence[str]
) -> None:
    """Refuses a render without a turn, a call or a tool, or with one of them twice.

    Raises:
        InputError: there is one.
    """
    times = Counter(_MARKS.findall(text))
    if not all(times[mark] for mark in of_tools):
        raise InputError(
            "the chat template leaves out the tools: expected each of them in it",
            code="data.lost_tools",
        )
    for index, (message, of_turn) in enumerate(zip(messages, marks, strict=True)):
        turn = f"turn {index + 1} ({message.role})"
        of_text = {times[mark] for mark in of_turn.text or ()}
        if of_text == {0}:
            raise InputError(f"the chat template leaves out {turn}", code="data.lost_turn")
        if of_text - {1}:
            raise InputError(f"the chat template rewrites {turn}", code="data.rewritten_turn")
        named = all(times[mark] for pair in of_turn.names for mark in pair)
        inside = times[of_turn.arguments] if of_turn.arguments else 0
        if not named or inside < of_turn.times:
            raise InputError(
                f"the chat template leaves out the tool calls of {turn}", code="data.lost_calls"
            )
        if inside > of_turn.times:
            raise InputError(
                f"the chat template rewrites the tool calls of {turn}", code="data.rewritten_calls"
            )
